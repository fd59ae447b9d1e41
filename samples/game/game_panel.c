/* game_panel.c - see game_panel.h. */
#include "game_panel.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const uint32_t back_rgb = 0x060A18, ink_rgb = 0xE6ECF5, dim_rgb = 0x9AA8BE, knob_rgb = 0xF2B35E;

static void write_line(canvas *canvas, text *text, float x, float y, float size, uint32_t rgb, const char *line)
{
    text_draw(text, canvas, x, y, size, colour_of(rgb, 1), line, strlen(line));
}

static void draw_slider(panel *panel, canvas *canvas, float scale, rect track)
{
    const float share = (float)(panel->budget_ms / PANEL_MOST_MS), knob = 9 * scale, high = fmaxf(4 * scale, 3);
    const float x = track.x + track.width * fminf(share, 1), y = track.y + track.height / 2;
    panel->track = track;
    canvas_box(canvas, (rect){track.x, y - high / 2, track.width, high}, high / 2, colour_of(ink_rgb, 0.28f));
    canvas_box(canvas, (rect){track.x, y - high / 2, x - track.x, high}, high / 2, colour_of(knob_rgb, 0.95f));
    canvas_box(canvas, (rect){x - knob, y - knob, 2 * knob, 2 * knob}, knob, colour_of(0xFFF3DC, 1));
}

static void draw_budget(panel *panel, const talk *talk, canvas *canvas, text *text, rect at, float scale)
{
    const float size = fmaxf(14 * scale, 10), pad = 10 * scale, line = text_height(text, size);
    char label[96];
    canvas_box(canvas, at, 8 * scale, colour_of(back_rgb, 0.62f));
    if (panel->budget_ms > 0)
        snprintf(label, sizeof label, "The model's budget: %.1f ms a frame", panel->budget_ms);
    else
        snprintf(label, sizeof label, "The model's budget: none, it stands still");
    write_line(canvas, text, at.x + pad, at.y + pad * 0.4f, size, ink_rgb, label);
    draw_slider(panel, canvas, scale,
                (rect){at.x + pad * 2, at.y + pad * 0.4f + line, at.width - 4 * pad, at.height - 2.1f * line - pad});
    snprintf(label, sizeof label, "%llu tokens in %llu replies", (unsigned long long)talk->n_tokens,
             (unsigned long long)talk->n_replies);
    write_line(canvas, text, at.x + pad, at.y + at.height - line - pad * 0.3f, size, dim_rgb, label);
}

/* In the middle, over the lake. */
static void draw_loading(const game_model *model, const talk *talk, canvas *canvas, text *text, float width,
                         float height)
{
    const float scale = fminf(height, 0.6f * width) / 720, size = fmaxf(17 * scale, 11), pad = 16 * scale;
    const bool failed = model->state == MODEL_FAILED, waking = model->state == MODEL_READY;
    const float share = waking ? 1 - (float)talk->n_asleep / (float)talk->n_sessions
                               : (float)atomic_load(&model->permille) / 1000;
    char label[48];
    snprintf(label, sizeof label, "%s: %.0f %%", waking ? "The two are waking up" : "Loading the model",
             (double)share * 100);
    const char *says = failed ? model->error.text : label;
    text_line lines[TEXT_MOST_LINES];
    const float inner = fminf(520 * scale, width - 4 * pad), line = text_height(text, size);
    const size_t count = text_wrap(text, size, says, strlen(says), inner, lines);
    const float high = line * (float)count + (failed ? 0 : 16 * scale) + 1.6f * pad;
    const rect at = {(width - inner) / 2 - pad, 20 * scale, inner + 2 * pad, high};
    canvas_box(canvas, at, 10 * scale, colour_of(failed ? 0x3A1016 : back_rgb, 0.78f));
    float y = at.y + pad * 0.7f;
    for (size_t i = 0; i < count; i++, y += line)
        text_draw(text, canvas, at.x + pad, y, size, colour_of(ink_rgb, 1), says + lines[i].start, lines[i].len);
    if (failed) return;
    const rect bar = {at.x + pad, y + 6 * scale, inner, 6 * scale};
    canvas_box(canvas, bar, 3 * scale, colour_of(ink_rgb, 0.25f));
    canvas_box(canvas, (rect){bar.x, bar.y, bar.width * share, bar.height}, 3 * scale, colour_of(knob_rgb, 1));
}

void panel_draw(panel *panel, const graph *graph, const talk *talk, const game_model *model, canvas *canvas,
                text *text, float width, float height)
{
    const float scale = fminf(height, 0.6f * width) / 720, margin = 12 * scale, high = fmaxf(92 * scale, 46);
    const float y = height - high - margin;
    const bool present = model->state != MODEL_NONE;
    const float right = present ? fminf(fmaxf(330 * scale, 215), 0.5f * width) : 0;
    const rect left = {margin, y, width - 2 * margin - (present ? right + margin : 0), high};
    graph_draw(graph, canvas, text, left, scale, present ? panel->budget_ms : -1);
    if (present)
        draw_budget(panel, talk, canvas, text, (rect){width - margin - right, y, right, high}, scale);
    const bool waking = model->state == MODEL_READY && talk->phase == TALK_WAKING;
    if (model->state == MODEL_LOADING || model->state == MODEL_FAILED || waking)
        draw_loading(model, talk, canvas, text, width, height);
}

void panel_mouse(panel *panel, float x, float y, bool down)
{
    const rect track = panel->track;
    if (!down) panel->dragging = false;
    const bool over = x >= track.x - 12 && x <= track.x + track.width + 12 && y >= track.y && y <= track.y + track.height;
    if (down && !panel->dragging && !over) return;
    if (!down || track.width <= 0) return;
    panel->dragging = true;
    const double share = (double)((x - track.x) / track.width);
    panel->budget_ms = round(fmin(fmax(share, 0), 1) * PANEL_MOST_MS * 10) / 10;
}
