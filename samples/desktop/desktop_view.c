/* desktop_view.c - see desktop_view.h. From top to bottom: a header, the conversation, a strip of progress while
 * something is loaded or read, the box for the message with its button, a line of status. */
#include "desktop_view.h"

#include <string.h>

#include "desktop_colours.h"

enum { HEADER = 56, STATUS = 26, STRIP = 34, MARGIN = 12, BUTTON = 92 };

view_act view_act_now(const view *v)
{
    if (model_is_busy(v->model)) return ACT_STOP;
    return v->model->state == MODEL_NONE ? ACT_LOAD : ACT_SEND;
}

bool view_can_use(const view *v, view_part part)
{
    switch (part) {
    case VIEW_FRESH: return v->talk->n > 0;
    case VIEW_AGAIN: return v->model->state == MODEL_READY && talk_last(v->talk, TALK_USER) != NULL;
    case VIEW_ACT: return view_act_now(v) != ACT_SEND || v->edit->text.len > 0;
    default: return true;
    }
}

view_part view_part_at(const view *v, int x, int y)
{
    const SDL_Point point = {x, y};
    if (bubbles_on_bar(&v->bubbles, v->paint, x, y)) return VIEW_BAR;
    for (view_part part = VIEW_TALK; part < VIEW_PARTS; part++)
        if (SDL_PointInRect(&point, &v->places[part])) return part;
    return VIEW_NOTHING;
}

/* ---- Header and buttons ---------------------------------------------------------------------- */

static void draw_button(const view *v, view_part part, const char *label)
{
    const bool can = view_can_use(v, part), lit = can && v->hover == part;
    const paint *p = v->paint;
    const SDL_Rect place = v->places[part];
    const int line = px(p, 1);
    paint_round_box(p, place, px(p, 8), COLOUR_LINE);
    paint_round_box(p, (SDL_Rect){place.x + line, place.y + line, place.w - 2 * line, place.h - 2 * line},
                    px(p, 8) - line, lit ? COLOUR_LIT : COLOUR_PAPER);
    paint_label(p->small, place, label, can ? COLOUR_TEXT : COLOUR_PALE);
}

static void draw_act_button(const view *v)
{
    const view_act act = view_act_now(v);
    const bool lit = v->hover == VIEW_ACT;
    SDL_Color colour = lit ? COLOUR_ACCENT_LIT : COLOUR_ACCENT;
    if (act == ACT_STOP) colour = lit ? COLOUR_STOP_LIT : COLOUR_STOP;
    if (!view_can_use(v, VIEW_ACT)) colour = COLOUR_PALE;
    paint_round_box(v->paint, v->places[VIEW_ACT], px(v->paint, 10), colour);
    paint_label(v->paint->body, v->places[VIEW_ACT],
                act == ACT_STOP   ? "Stop"
                : act == ACT_LOAD ? "Load"
                                  : "Send",
                COLOUR_ON_ACCENT);
}

/* The file's name without its folders and its ending; the names in files are less like those on their covers. */
static void name_model(const char *path, char *name, size_t size)
{
    const char *last = path ? path : "No model";
    for (const char *at = last; *at; at++)
        if (*at == '/' || *at == '\\') last = at + 1;
    size_t len = strlen(last);
    if (len > 5 && SDL_strcasecmp(last + len - 5, ".gguf") == 0) len -= 5;
    snprintf(name, size, "%.*s", (int)len, last);
}

/* What runs where; "" where nothing does. */
static void describe(const model *m, char *about, size_t size)
{
    const vklm_model_info *info = &m->setup->info;
    vklm_device_info device;
    about[0] = '\0';
    if (!m->session) return;
    vklm_device_get_info(m->setup->device, &device);
    snprintf(about, size, "%s, %s, %.0f M parameters, on %s", info->architecture, info->file_type,
             (double)info->n_params * 1e-6, device.name);
}

static void draw_header(const view *v, SDL_Rect area)
{
    const paint *p = v->paint;
    char name[300], about[600];
    name_model(v->model->setup->model_path, name, sizeof name);
    describe(v->model, about, sizeof about);
    const int x = px(p, 18), under = area.y + area.h - 1;
    const int height = font_line_height(p->body) + (about[0] ? font_line_height(p->small) : 0);
    int y = area.y + (area.h - height) / 2;
    paint_box(p, area, COLOUR_PAPER);
    const SDL_Rect clip = {0, area.y, v->places[VIEW_AGAIN].x - px(p, 10), area.h};
    SDL_RenderSetClipRect(p->renderer, &clip);
    paint_text(p->body, x, y, name, COLOUR_TEXT);
    y += font_line_height(p->body);
    paint_text(p->small, x, y, about, COLOUR_QUIET);
    SDL_RenderSetClipRect(p->renderer, NULL);
    paint_box(p, (SDL_Rect){0, under, area.w, 1}, COLOUR_LINE);
    draw_button(v, VIEW_AGAIN, "Regenerate");
    draw_button(v, VIEW_FRESH, "New conversation");
}

/* ---- Progress and status --------------------------------------------------------------------- */

static bool has_strip(const view *v)
{
    return v->model->state == MODEL_LOADING || v->model->state == MODEL_READING;
}

static void draw_strip(const view *v, SDL_Rect area)
{
    const paint *p = v->paint;
    const model *m = v->model;
    char text[400];
    if (m->state == MODEL_LOADING)
        snprintf(text, sizeof text, "Loading the model: %.0f %%", model_progress(m) * 100);
    else if (m->n_total == 0)
        snprintf(text, sizeof text, "Reading the prompt");
    else
        snprintf(text, sizeof text, "Reading the prompt: %u of %u tokens", m->n_done, m->n_total);
    paint_text(p->small, area.x, area.y + px(p, 3), text, COLOUR_QUIET);
    SDL_Rect bar = {area.x, area.y + area.h - px(p, 8), area.w, px(p, 5)};
    paint_round_box(p, bar, px(p, 2.5), COLOUR_LINE);
    bar.w = (int)(area.w * model_progress(m));
    paint_round_box(p, bar, px(p, 2.5), COLOUR_ACCENT);
}

static const char *name_state(const model *m)
{
    switch (m->state) {
    case MODEL_NONE: return "No model is loaded";
    case MODEL_LOADING: return SDL_AtomicGet((SDL_atomic_t *)&m->cancelled) ? "Stopping" : "Loading";
    case MODEL_READY: return "Ready";
    case MODEL_READING: return "Reading";
    case MODEL_WRITING: break;
    }
    return "Writing";
}

static void draw_status(const view *v, SDL_Rect area)
{
    const paint *p = v->paint;
    const model *m = v->model;
    const vklm_session_stats *s = &m->stats;
    const double seconds = (double)s->generate_ns * 1e-9;
    char left[200], right[200] = "";
    int len = snprintf(left, sizeof left, "%s", name_state(m));
    if (s->n_generated > 1 && seconds > 0)
        len += snprintf(left + len, sizeof left - (size_t)len, "   ·   %.1f tokens/s", (s->n_generated - 1) / seconds);
    if (s->n_prompt + s->n_reused > 0)
        snprintf(left + len, sizeof left - (size_t)len, "   ·   %u of %u prompt tokens reused", s->n_reused,
                 s->n_prompt + s->n_reused);
    if (m->session)
        snprintf(right, sizeof right, "context %u of %u   ·   device memory %s", s->context_used, s->context_size,
                 format_size(vklm_device_memory_used(m->setup->device)).text);
    const int y = area.y + (area.h - font_line_height(p->small)) / 2, x = px(p, 18);
    const int right_x = area.w - x - paint_text_width(p->small, right);
    paint_text(p->small, right_x, y, right, COLOUR_QUIET);
    area.w = right_x - px(p, 10);
    SDL_RenderSetClipRect(p->renderer, &area);
    paint_text(p->small, x, y, left, COLOUR_QUIET);
    SDL_RenderSetClipRect(p->renderer, NULL);
}

/* ---- The whole ------------------------------------------------------------------------------- */

static void draw_hint(const view *v, SDL_Rect area)
{
    const paint *p = v->paint;
    const int line = font_line_height(p->body), more = font_line_height(p->small);
    area.y += area.h / 2 - line;
    area.h = line;
    paint_label(p->body, area, "Ask something", COLOUR_QUIET);
    area.y += line + px(p, 6);
    area.h = more;
    paint_label(p->small, area, "Enter sends · Shift+Enter begins a line · Esc stops · Ctrl+R another reply · "
                                "Ctrl+N another conversation",
                COLOUR_PALE);
}

/* Places buttons and box; returns the y at which the box, or the strip above it, begins. */
static int arrange(view *v, int width, int height, SDL_Rect *box_area, SDL_Rect *strip)
{
    const paint *p = v->paint;
    const int margin = px(p, MARGIN), button = px(p, BUTTON), low = px(p, 32);
    const int fresh = paint_text_width(p->small, "New conversation") + px(p, 24);
    const int again = paint_text_width(p->small, "Regenerate") + px(p, 24), top = (px(p, HEADER) - low) / 2;
    v->places[VIEW_FRESH] = (SDL_Rect){width - margin - fresh, top, fresh, low};
    v->places[VIEW_AGAIN] = (SDL_Rect){v->places[VIEW_FRESH].x - px(p, 8) - again, top, again, low};
    *box_area = (SDL_Rect){.x = margin, .w = width - 3 * margin - button};
    box_area->h = box_measure(&v->box, v->edit, p, box_area->w);
    box_area->y = height - px(p, STATUS) - box_area->h;
    v->places[VIEW_BOX] = *box_area;
    const int act = box_least_height(p);
    v->places[VIEW_ACT] = (SDL_Rect){width - margin - button, box_area->y + box_area->h - act, button, act};
    *strip = (SDL_Rect){px(p, 18), box_area->y - px(p, STRIP) - px(p, 4), width - px(p, 36), px(p, STRIP)};
    return has_strip(v) ? strip->y : box_area->y - px(p, 8);
}

void view_draw(view *v)
{
    const paint *p = v->paint;
    int width = 0, height = 0;
    SDL_Rect box_area, strip;
    SDL_GetRendererOutputSize(p->renderer, &width, &height);
    paint_box(p, (SDL_Rect){0, 0, width, height}, COLOUR_GROUND);
    const int end = arrange(v, width, height, &box_area, &strip), header = px(p, HEADER);
    const SDL_Rect talk_area = {0, header, width, end > header ? end - header : 0};
    v->places[VIEW_TALK] = talk_area;
    bubbles_draw(&v->bubbles, v->talk, p, talk_area);
    if (v->talk->n == 0) draw_hint(v, talk_area);
    if (has_strip(v)) draw_strip(v, strip);
    box_draw(&v->box, v->edit, p, box_area, v->has_focus, v->blink);
    draw_act_button(v);
    draw_status(v, (SDL_Rect){0, height - px(p, STATUS), width, px(p, STATUS)});
    draw_header(v, (SDL_Rect){0, 0, width, header});
}
