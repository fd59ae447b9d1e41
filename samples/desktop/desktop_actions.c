/* desktop_actions.c - see desktop_actions.h. */
#include "desktop_actions.h"

#include <stdlib.h>
#include <string.h>

enum { WHEEL_LINES = 3 };

/* ---- What can be done ------------------------------------------------------------------------ */

static void ask(desktop *d)
{
    bubbles_select_nothing(&d->view.bubbles);
    d->view.bubbles.is_up = false;
    d->asked = true;
    model_ask(&d->model, &d->talk);
}

void desktop_send(desktop *d)
{
    const model_state state = d->model.state;
    d->send_when_ready = false;
    if (d->edit.text.len == 0) return;
    d->send_when_ready = state == MODEL_LOADING;
    if (state == MODEL_NONE) {
        model_load(&d->model, &d->talk);
        d->send_when_ready = d->model.state == MODEL_LOADING;
    }
    if (state != MODEL_READY) return;
    talk_add(&d->talk, TALK_USER, d->edit.text.bytes);
    edit_clear(&d->edit);
    ask(d);
}

static void regenerate(desktop *d)
{
    if (d->model.state == MODEL_READY && talk_drop_reply(&d->talk)) ask(d);
}

static void start_anew(desktop *d)
{
    model_start_anew(&d->model);
    bubbles_select_nothing(&d->view.bubbles);
    talk_clear(&d->talk);
}

static void act(desktop *d)
{
    switch (view_act_now(&d->view)) {
    case ACT_SEND: desktop_send(d); break;
    case ACT_STOP: model_stop(&d->model); break;
    case ACT_LOAD: model_load(&d->model, &d->talk); break;
    }
}

static void copy(desktop *d, bool cut)
{
    char *text = edit_copy(&d->edit);
    if (text && cut) edit_erase(&d->edit, EDIT_RIGHT);
    if (!text) text = bubbles_copy(&d->view.bubbles, &d->talk);
    if (text) SDL_SetClipboardText(text);
    free(text);
}

static void paste(desktop *d)
{
    char *text = SDL_GetClipboardText();
    if (text) edit_insert(&d->edit, text, strlen(text));
    SDL_free(text);
}

bool desktop_set_scale(desktop *d)
{
    int wide = 0, tall = 0, width = 0, height = 0;
    SDL_GetRendererOutputSize(d->paint.renderer, &wide, &tall);
    SDL_GetWindowSize(d->window, &width, &height);
    d->density = width > 0 ? (double)wide / width : 1;
    const double scale = d->density * d->zoom;
    if (scale == d->paint.scale) return true;
    for (size_t i = 0; i < d->talk.n; i++) d->talk.items[i].wrapped = 0;
    return paint_set_scale(&d->paint, scale);
}

static void zoom(desktop *d, double factor)
{
    const double wanted = factor == 0 ? 1 : d->zoom * factor;
    if (wanted < 0.5 || wanted > 4) return;
    d->zoom = wanted;
    d->quit = !desktop_set_scale(d) || d->quit;
}

void desktop_load_dropped(desktop *d)
{
    SDL_free(d->loaded_path);
    d->setup.model_path = d->loaded_path = d->dropped_path;
    d->dropped_path = NULL;
    start_anew(d);
    model_load(&d->model, &d->talk);
}

/* A load that is going on is stopped first; the event loop goes on meanwhile. */
static void take_dropped(desktop *d, char *path)
{
    SDL_free(d->dropped_path);
    d->dropped_path = path;
    model_stop(&d->model);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static void move_by_lines(desktop *d, int lines, bool select)
{
    edit_move_to(&d->edit, box_line_below(&d->view.box, &d->edit, &d->paint, lines), select);
}

static void move_in_line(desktop *d, bool to_end, bool select)
{
    size_t begin = 0, end = 0;
    box_line_ends(&d->view.box, &d->edit, &begin, &end);
    edit_move_to(&d->edit, to_end ? end : begin, select);
}

static void take_page_key(desktop *d, int direction)
{
    bubbles_scroll(&d->view.bubbles, direction * d->view.bubbles.area.h * 9 / 10);
}

static void take_letter(desktop *d, SDL_Keycode key)
{
    switch (key) {
    case SDLK_a: edit_select_all(&d->edit); break;
    case SDLK_c: copy(d, false); break;
    case SDLK_x: copy(d, true); break;
    case SDLK_v: paste(d); break;
    case SDLK_n: start_anew(d); break;
    case SDLK_r: regenerate(d); break;
    case SDLK_q: d->quit = true; break;
    case SDLK_EQUALS:
    case SDLK_PLUS:
    case SDLK_KP_PLUS: zoom(d, 1.125); break;
    case SDLK_MINUS:
    case SDLK_KP_MINUS: zoom(d, 1 / 1.125); break;
    case SDLK_0: zoom(d, 0); break;
    default: break;
    }
}

static void take_enter(desktop *d, bool shift)
{
    if (shift) edit_insert(&d->edit, "\n", 1);
    else desktop_send(d);
}

static void take_escape(desktop *d)
{
    d->send_when_ready = false;
    if (model_is_busy(&d->model)) model_stop(&d->model);
}

static void take_key(desktop *d, const SDL_Keysym *key)
{
    const bool shift = key->mod & KMOD_SHIFT, command = key->mod & (KMOD_CTRL | KMOD_GUI);
    if (d->edit.composed[0]) return; /* the keys are the input method's */
    switch (key->sym) {
    case SDLK_RETURN:
    case SDLK_KP_ENTER: take_enter(d, shift); break;
    case SDLK_ESCAPE: take_escape(d); break;
    case SDLK_BACKSPACE: edit_erase(&d->edit, command ? EDIT_WORD_LEFT : EDIT_LEFT); break;
    case SDLK_DELETE:
        if (shift) copy(d, true);
        else edit_erase(&d->edit, command ? EDIT_WORD_RIGHT : EDIT_RIGHT);
        break;
    case SDLK_INSERT:
        if (shift) paste(d);
        else if (command) copy(d, false);
        break;
    case SDLK_LEFT: edit_move(&d->edit, command ? EDIT_WORD_LEFT : EDIT_LEFT, shift); break;
    case SDLK_RIGHT: edit_move(&d->edit, command ? EDIT_WORD_RIGHT : EDIT_RIGHT, shift); break;
    case SDLK_UP: move_by_lines(d, -1, shift); break;
    case SDLK_DOWN: move_by_lines(d, 1, shift); break;
    case SDLK_HOME:
        if (command) edit_move(&d->edit, EDIT_BEGIN, shift);
        else move_in_line(d, false, shift);
        break;
    case SDLK_END:
        if (command) edit_move(&d->edit, EDIT_END, shift);
        else move_in_line(d, true, shift);
        break;
    case SDLK_PAGEUP: take_page_key(d, -1); break;
    case SDLK_PAGEDOWN: take_page_key(d, 1); break;
    default:
        if (command) take_letter(d, key->sym);
        break;
    }
}

/* ---- The mouse ------------------------------------------------------------------------------- */

static void press_in_box(desktop *d, int x, int y, int clicks)
{
    const size_t at = box_offset_at(&d->view.box, &d->edit, &d->paint, x, y);
    bubbles_select_nothing(&d->view.bubbles);
    if (clicks == 1) edit_move_to(&d->edit, at, SDL_GetModState() & KMOD_SHIFT);
    if (clicks == 2) edit_select_word(&d->edit, at);
    if (clicks > 2) edit_select_all(&d->edit);
}

static void press(desktop *d, int x, int y, int clicks)
{
    const view_part part = view_part_at(&d->view, x, y);
    d->dragged = part;
    if (!view_can_use(&d->view, part)) return;
    switch (part) {
    case VIEW_TALK:
        edit_move_to(&d->edit, d->edit.cursor, false);
        bubbles_select(&d->view.bubbles, &d->talk, &d->paint, x, y, false);
        break;
    case VIEW_BAR: bubbles_drag_bar(&d->view.bubbles, y); break;
    case VIEW_BOX: press_in_box(d, x, y, clicks); break;
    case VIEW_ACT: act(d); break;
    case VIEW_AGAIN: regenerate(d); break;
    case VIEW_FRESH: start_anew(d); break;
    case VIEW_NOTHING:
    case VIEW_PARTS: break;
    }
}

/* The mouse has moved; true where the picture changes. */
static bool move(desktop *d, int x, int y)
{
    const view_part hover = view_part_at(&d->view, x, y);
    const bool crossed = hover != d->view.hover;
    d->view.hover = hover;
    switch (d->dragged) {
    case VIEW_TALK: bubbles_select(&d->view.bubbles, &d->talk, &d->paint, x, y, true); return true;
    case VIEW_BAR: bubbles_drag_bar(&d->view.bubbles, y); return true;
    case VIEW_BOX:
        edit_move_to(&d->edit, box_offset_at(&d->view.box, &d->edit, &d->paint, x, y), true);
        return true;
    default: return crossed;
    }
}

static int to_pixels(const desktop *d, int units)
{
    return (int)(units * d->density + 0.5);
}

static void turn_wheel(desktop *d, const SDL_MouseWheelEvent *wheel)
{
    const double lines = wheel->preciseY * WHEEL_LINES;
    const int pixels = (int)(lines * font_line_height(d->paint.body));
    bubbles_scroll(&d->view.bubbles, wheel->direction == SDL_MOUSEWHEEL_FLIPPED ? pixels : -pixels);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void take_window_event(desktop *d, const SDL_WindowEvent *event)
{
    if (event->event == SDL_WINDOWEVENT_FOCUS_GAINED) d->view.has_focus = true;
    if (event->event == SDL_WINDOWEVENT_FOCUS_LOST) d->view.has_focus = false;
    if (event->event == SDL_WINDOWEVENT_LEAVE) d->view.hover = VIEW_NOTHING;
    if (event->event == SDL_WINDOWEVENT_SIZE_CHANGED) d->quit = !desktop_set_scale(d) || d->quit;
}

static void type(desktop *d, const char *text)
{
    const SDL_Keymod held = SDL_GetModState();
    if ((held & (KMOD_CTRL | KMOD_GUI)) && !(held & KMOD_ALT)) return; /* a command; with Alt, AltGr of some keyboards */
    edit_compose(&d->edit, NULL);
    edit_insert(&d->edit, text, strlen(text));
}

void desktop_take_event(desktop *d, const SDL_Event *event)
{
    const bool was_dirty = d->dirty;
    d->dirty = true;
    if (event->type >= SDL_KEYDOWN && event->type <= SDL_MOUSEWHEEL) d->input_ms = SDL_GetTicks();
    switch (event->type) {
    case SDL_QUIT: d->quit = true; break;
    case SDL_WINDOWEVENT: take_window_event(d, &event->window); break;
    case SDL_RENDER_TARGETS_RESET:
    case SDL_RENDER_DEVICE_RESET: paint_reset(&d->paint); break;
    case SDL_KEYDOWN: take_key(d, &event->key.keysym); break;
    case SDL_TEXTINPUT: type(d, event->text.text); break;
    case SDL_TEXTEDITING: edit_compose(&d->edit, event->edit.text); break;
    case SDL_TEXTEDITING_EXT:
        edit_compose(&d->edit, event->editExt.text);
        SDL_free(event->editExt.text);
        break;
    case SDL_MOUSEBUTTONDOWN:
        if (event->button.button == SDL_BUTTON_LEFT)
            press(d, to_pixels(d, event->button.x), to_pixels(d, event->button.y), event->button.clicks);
        break;
    case SDL_MOUSEBUTTONUP: d->dragged = VIEW_NOTHING; break;
    case SDL_MOUSEMOTION:
        d->dirty = move(d, to_pixels(d, event->motion.x), to_pixels(d, event->motion.y)) || was_dirty;
        break;
    case SDL_MOUSEWHEEL: turn_wheel(d, &event->wheel); break;
    case SDL_DROPFILE: take_dropped(d, event->drop.file); break;
    default: d->dirty = was_dirty; break;
    }
}
