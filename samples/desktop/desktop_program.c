/* desktop_program.c - vklm-desktop: a chat window that never freezes.
 *
 * One event loop: it waits for events, lets the model advance by what its device has finished, and draws where
 * something changed. It never waits for the model; while nothing happens it sleeps. The files beside this one:
 * desktop_actions (keys and mouse), desktop_model (loading and replies), desktop_talk (what was said), desktop_view,
 * desktop_bubbles and desktop_box (the picture), desktop_edit and desktop_text (typing and lines), desktop_paint and
 * desktop_font (drawing), desktop_report (how well the loop kept up), desktop_picture (screenshots).
 */
#include <SDL.h>
#include <SDL_ttf.h>
#include <stdlib.h>
#include <string.h>

#include "desktop_actions.h"
#include "desktop_picture.h"
#include "sample_files.h"

enum {
    FRAME_MS = 16,         /* between two pictures, at least */
    LOAD_WAIT_MS = 10,     /* between two looks at the loader */
    STEP_WAIT_MS = 1,      /* between two looks at the device */
    BLINK_MS = 530,        /* the cursor is seen so long, and so long not */
    BLINK_ENDS_MS = 10000, /* it stands still when nothing was typed for so long, and the loop sleeps */
};

typedef struct desktop_options {
    const char *prompt, *system, *font, *fallback_font, *screenshot;
    int64_t max_tokens, context, seed;
    double temperature, exit_after;
    args_list window;
    bool exit_after_reply, report;
} desktop_options;

static const char about[] =
    "    A window to talk with a model in. Enter sends, Shift+Enter begins a line, Esc stops a load or a\n"
    "    reply, Ctrl+R asks for another reply and Ctrl+N begins another conversation; Ctrl with + - 0\n"
    "    changes the size. A GGUF file that is dropped on the window is loaded.\n";

static const char after[] = "EXIT STATUS\n"
                            "    0 success, 1 the last thing asked for did not work, 2 a wrong command line\n"
                            "\n"
                            "EXAMPLES\n"
                            "    vklm-desktop\n"
                            "    vklm-desktop -m model.gguf --prompt 'Why is the sky blue?'\n"
                            "    vklm-desktop --prompt Hello --exit-after-reply --report --screenshot window.png\n";

static int parse(desktop_options *o, sample_setup *setup, int argc, char **argv)
{
    const args_option options[] = {
        {ARGS_TEXT, "-p, --prompt", "TEXT", &o->prompt, 0, 0, "Type TEXT and send it as soon as the model is loaded."},
        {ARGS_TEXT, "-s, --system", "TEXT", &o->system, 0, 0, "The system prompt."},
        {ARGS_INTEGER, "-n, --tokens", "N", &o->max_tokens, 0, 1e6,
         "At most N tokens a reply. Default: as many as the context has."},
        {ARGS_INTEGER, "-c, --context", "N", &o->context, 0, 1e7,
         "Tokens that a conversation may have. Default: 4096, less where the model has less."},
        {ARGS_REAL, "--temp", "X", &o->temperature, 0, 100,
         "Temperature: higher is more daring; 0: always the likeliest token. Default: 0.8."},
        {ARGS_INTEGER, "--seed", "N", &o->seed, 0, 9007199254740992.0,
         "Makes a run repeatable; 0: another each time. Default: 0."},
        {ARGS_HEADING, "Window", NULL, NULL, 0, 0, NULL},
        {ARGS_TEXT, "--font", "FILE", &o->font, 0, 0, "A font file. Default: DejaVu Sans or its like."},
        {ARGS_TEXT, "--fallback-font", "FILE", &o->fallback_font, 0, 0,
         "For characters that the first font lacks. Default: WenQuanYi Micro Hei or Noto Sans CJK."},
        {ARGS_LIST, "--window", "W,H", &o->window, 320, 16384, "Its size. Default: 900,640."},
        {ARGS_REAL, "--exit-after", "SECONDS", &o->exit_after, 0, 1e6, "Leave so long after the start."},
        {ARGS_FLAG, "--exit-after-reply", NULL, &o->exit_after_reply, 0, 0,
         "Leave when the first reply is there, or cannot be had."},
        {ARGS_TEXT, "--screenshot", "FILE", &o->screenshot, 0, 0,
         "Write the window's last picture to FILE, as PNG or, where its name does not end so, as BMP."},
        {ARGS_FLAG, "--report", NULL, &o->report, 0, 0,
         "Print at the end how long the window was ever deaf while loading, reading and writing."},
        SETUP_OPTIONS(setup, "-d, --device"),
        CACHE_OPTION(setup),
    };
    const args_program program = {
        .name = setup->program,
        .purpose = "a window to talk with a language model in, on any Vulkan GPU",
        .synopsis = "[-m FILE] [OPTION]...",
        .about = about,
        .options = options,
        .n_options = sizeof options / sizeof *options,
        .after = after,
    };
    const int parsed = args_parse(&program, argc, argv);
    if (parsed == ARGS_GO && o->window.count != 2) return args_complain(setup->program, "--window takes W,H");
    return parsed;
}

/* ---- Start and end --------------------------------------------------------------------------- */

/* Whether OpenGL runs on the CPU here: then SDL's own drawing costs less. */
static bool is_software_gl(SDL_Renderer *renderer)
{
    enum { RENDERER_NAME = 0x1f01 }; /* GL_RENDERER */
    SDL_RendererInfo info;
    if (SDL_GetRendererInfo(renderer, &info) != 0 || strncmp(info.name, "opengl", 6) != 0) return false;
    const unsigned char *(SDLCALL *get_string)(unsigned) = NULL;
    *(void **)&get_string = SDL_GL_GetProcAddress("glGetString");
    const char *name = get_string ? (const char *)get_string(RENDERER_NAME) : NULL;
    return name && (strstr(name, "llvmpipe") || strstr(name, "softpipe") || strstr(name, "Software"));
}

static SDL_Renderer *make_renderer(SDL_Window *window)
{
    SDL_Renderer *renderer = SDL_CreateRenderer(window, -1, 0);
    if (!renderer || !is_software_gl(renderer)) return renderer;
    SDL_DestroyRenderer(renderer);
    SDL_SetHint(SDL_HINT_FRAMEBUFFER_ACCELERATION, "0");
    return SDL_CreateRenderer(window, -1, SDL_RENDERER_SOFTWARE);
}

static bool open_window(desktop *d, const desktop_options *o)
{
    SDL_SetHint(SDL_HINT_IME_SHOW_UI, "1");
    SDL_SetHint(SDL_HINT_IME_SUPPORT_EXTENDED_TEXT, "1");
    SDL_SetHint(SDL_HINT_VIDEO_ALLOW_SCREENSAVER, "1");
    if (SDL_Init(SDL_INIT_VIDEO) != 0 || TTF_Init() != 0) return false;
    d->window = SDL_CreateWindow("vklm", SDL_WINDOWPOS_UNDEFINED, SDL_WINDOWPOS_UNDEFINED, (int)o->window.values[0],
                                 (int)o->window.values[1], SDL_WINDOW_RESIZABLE | SDL_WINDOW_ALLOW_HIGHDPI);
    if (!d->window) return false;
    SDL_SetWindowMinimumSize(d->window, 480, 320);
    d->paint.renderer = make_renderer(d->window);
    if (!d->paint.renderer) return false;
    d->paint.files = font_find(o->font, o->fallback_font);
    SDL_StartTextInput();
    return desktop_set_scale(d);
}

static void close_window(desktop *d)
{
    paint_close(&d->paint);
    if (d->paint.renderer) SDL_DestroyRenderer(d->paint.renderer);
    if (d->window) SDL_DestroyWindow(d->window);
    if (TTF_WasInit()) TTF_Quit();
    SDL_Quit();
}

static void set_up(desktop *d, const desktop_options *o)
{
    d->zoom = 1;
    d->dirty = true;
    d->talk.system = o->system;
    d->model = (model){.setup = &d->setup,
                       .context = (uint32_t)o->context,
                       .generate = {.struct_size = sizeof d->model.generate,
                                    .max_tokens = (uint32_t)o->max_tokens,
                                    .sampling = {.temperature = o->temperature == 0 ? -1 : o->temperature < 0 ? 0 : (float)o->temperature,
                                                 .seed = (uint64_t)o->seed}}};
    d->view = (view){.paint = &d->paint, .talk = &d->talk, .edit = &d->edit, .model = &d->model, .blink = true};
    bubbles_select_nothing(&d->view.bubbles);
    edit_clear(&d->edit);
}

/* ---- The event loop -------------------------------------------------------------------------- */

/* Until the cursor changes; -1: it does not. */
static int blink_wait(desktop *d)
{
    const uint32_t since = SDL_GetTicks() - d->input_ms;
    const bool blink = since > BLINK_ENDS_MS || since / BLINK_MS % 2 == 0;
    if (blink != d->view.blink && d->view.has_focus) d->dirty = true;
    d->view.blink = blink;
    return d->view.has_focus && since <= BLINK_ENDS_MS ? (int)(BLINK_MS - since % BLINK_MS) : -1;
}

/* How long the loop may sleep, in ms; -1: until something happens. */
static int choose_wait(desktop *d, const desktop_options *o, uint32_t drawn_ms)
{
    int wait = blink_wait(d);
    const uint32_t now = SDL_GetTicks(), since = now - drawn_ms;
    if (o->exit_after > 0 && (wait < 0 || wait > 100)) wait = 100;
    if (model_is_busy(&d->model)) wait = d->model.state == MODEL_LOADING ? LOAD_WAIT_MS : STEP_WAIT_MS;
    if (d->dirty) {
        const int due = since < FRAME_MS ? (int)(FRAME_MS - since) : 0;
        if (wait < 0 || due < wait) wait = due;
    }
    return wait;
}

static void take_events(desktop *d, int wait)
{
    SDL_Event event;
    if (wait < 0) SDL_WaitEvent(NULL);
    else if (wait > 0) SDL_WaitEventTimeout(NULL, wait);
    if (!model_is_busy(&d->model)) report_waited(&d->report);
    while (SDL_PollEvent(&event)) desktop_take_event(d, &event);
}

static void advance_model(desktop *d)
{
    const uint64_t begin = clock_ns();
    if (model_turn(&d->model, &d->talk)) d->dirty = true;
    report_model(&d->report, begin);
    if (d->send_when_ready && d->model.state == MODEL_READY) desktop_send(d);
    if (d->model.state == MODEL_NONE) d->send_when_ready = false;
    if (d->dropped_path && d->model.state != MODEL_LOADING) desktop_load_dropped(d);
}

static void draw(desktop *d)
{
    const uint64_t begin = clock_ns();
    view_draw(&d->view);
    SDL_RenderPresent(d->paint.renderer);
    const SDL_Rect caret = d->view.box.caret;
    const double to_units = 1 / d->density;
    SDL_SetTextInputRect(&(SDL_Rect){(int)(caret.x * to_units), (int)(caret.y * to_units), (int)(caret.w * to_units),
                                     (int)(caret.h * to_units)});
    d->dirty = false;
    report_draw(&d->report, begin);
}

static bool is_over(const desktop *d, const desktop_options *o, uint64_t began)
{
    if (d->quit) return true;
    if (o->exit_after > 0 && (double)(clock_ns() - began) * 1e-9 >= o->exit_after) return true;
    return o->exit_after_reply && !model_is_busy(&d->model) && !d->send_when_ready && (d->asked || d->model.failed);
}

static void run(desktop *d, const desktop_options *o)
{
    const uint64_t began = clock_ns();
    uint32_t drawn_ms = SDL_GetTicks() - FRAME_MS;
    report_begin(&d->report);
    while (!is_over(d, o, began)) {
        report_turn(&d->report, d->model.state);
        take_events(d, choose_wait(d, o, drawn_ms));
        advance_model(d);
        if (!d->dirty || SDL_GetTicks() - drawn_ms < FRAME_MS) continue;
        draw(d);
        drawn_ms = SDL_GetTicks();
    }
    report_turn(&d->report, d->model.state);
}

static bool write_screenshot(desktop *d, const char *path)
{
    view_draw(&d->view);
    if (picture_write(d->paint.renderer, path)) return true;
    setup_say(&d->setup, "%s", SDL_GetError());
    return false;
}

static int converse(desktop *d, const desktop_options *o)
{
    if (o->prompt) edit_insert(&d->edit, o->prompt, strlen(o->prompt));
    model_load(&d->model, &d->talk);
    d->send_when_ready = o->prompt && d->model.state == MODEL_LOADING;
    run(d, o);
    const bool written = !o->screenshot || write_screenshot(d, o->screenshot);
    const talk_item *notice = talk_last(&d->talk, TALK_NOTICE);
    const bool failed = d->model.failed;
    SDL_HideWindow(d->window); /* gone at once, whatever is to be waited for */
    model_close(&d->model);
    if (failed && notice) setup_say(&d->setup, "%s", notice->text.bytes);
    if (o->report) report_print(&d->report);
    return written && !failed ? 0 : 1;
}

int main(int argc, char **argv)
{
    desktop d = {.setup = {.program = "vklm-desktop"}};
    desktop_options o = {.temperature = -1 /* not given */, .window = {{900, 640}, 2}};
    const int parsed = parse(&o, &d.setup, argc, argv);
    if (parsed != ARGS_GO) return parsed;
    if (d.setup.list_devices) return setup_list_devices(&d.setup);
    char *default_model = d.setup.model_path ? NULL : user_file(USER_CACHE, "SmolLM2-135M-Instruct.Q4_1.gguf");
    if (default_model) d.setup.model_path = default_model;
    set_up(&d, &o);
    int code = 1;
    if (open_window(&d, &o)) code = converse(&d, &o);
    else setup_say(&d.setup, "there is no window: %s", SDL_GetError());
    close_window(&d);
    talk_free(&d.talk);
    edit_free(&d.edit);
    box_free(&d.view.box);
    SDL_free(d.dropped_path);
    SDL_free(d.loaded_path);
    free(default_model);
    return code;
}
