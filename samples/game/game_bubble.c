/* game_bubble.c - see game_bubble.h. */
#include "game_bubble.h"

#include <math.h>
#include <string.h>

enum { SHOWN_LINES = 6 };
static const uint32_t paper_rgb = 0xFBF4E4, ink_rgb = 0x2A2430, dim_rgb = 0x8C8478;

/* Where the heads are in shaders/scene.frag: the tip of each bubble's tail, from the picture's middle. */
static const float head_x[SPEAKERS] = {-0.93f, 0.92f}, head_y = 0.075f;

/* unit() of that shader. */
static float half_of(float width, float height)
{
    return 0.5f * fminf(height, 0.6f * width);
}

typedef struct bubble {
    float size, line, pad; /* pixels: of the letters, from line to line, to the edge */
    rect at;
    float tip_x, tip_y;
    size_t n_lines;
    text_line lines[TEXT_MOST_LINES];
} bubble;

static void place(bubble *bubble, text *text, int speaker, const sample_text *said, float width, float height)
{
    const float unit = half_of(width, height), scale = unit / 360, half = width / 2;
    bubble->size = fmaxf(20 * scale, 11);
    bubble->line = text_height(text, bubble->size);
    bubble->pad = 14 * scale;
    bubble->tip_x = half + head_x[speaker] * unit;
    bubble->tip_y = height / 2 - head_y * unit;
    const float margin = 20 * scale, most = half - 2 * margin, inner = fminf(most, 540 * scale) - 2 * bubble->pad;
    bubble->n_lines = text_wrap(text, bubble->size, said->bytes, said->len, inner, bubble->lines);
    const size_t rows = bubble->n_lines < 1 ? 1 : bubble->n_lines > SHOWN_LINES ? SHOWN_LINES : bubble->n_lines;
    float widest = 130 * scale;
    for (size_t i = 0; i < bubble->n_lines; i++)
        widest = fmaxf(widest, text_width(text, bubble->size, said->bytes + bubble->lines[i].start,
                                          bubble->lines[i].len));
    bubble->at.width = widest + 2 * bubble->pad;
    bubble->at.height = bubble->line * ((float)rows + 0.9f) + 1.4f * bubble->pad;
    const float least = speaker == OWL ? margin : half + margin;
    bubble->at.x = fmaxf(least, fminf(bubble->tip_x - bubble->at.width / 2, least + most - bubble->at.width));
    bubble->at.y = bubble->tip_y - 22 * scale - bubble->at.height;
}

static void draw_paper(canvas *canvas, const bubble *bubble, float scale, float opacity)
{
    const rect at = bubble->at, below = {at.x, at.y + 5 * scale, at.width, at.height};
    const float foot = at.y + at.height - 1, wide = 13 * scale, radius = 16 * scale;
    canvas_shadow(canvas, below, radius, 18 * scale, colour_of(0x000010, 0.45f * opacity));
    const float tail[6] = {bubble->tip_x - wide, foot, bubble->tip_x + wide, foot, bubble->tip_x, bubble->tip_y};
    canvas_triangle(canvas, tail, colour_of(paper_rgb, 0.96f * opacity));
    canvas_box(canvas, at, radius, colour_of(paper_rgb, 0.96f * opacity));
}

/* Three dots that swell in turn, while the first token is being made. */
static void draw_thinking(canvas *canvas, const bubble *bubble, float y, double time, float digested)
{
    for (int i = 0; i < 3; i++) {
        const float swell = 0.5f + 0.5f * sinf((float)time * 5 - (float)i * 0.9f);
        const float side = bubble->size * (0.28f + 0.14f * swell), x = bubble->at.x + bubble->pad;
        const float left = x + bubble->size * (0.3f + 0.7f * (float)i) - side / 2;
        canvas_box(canvas, (rect){left, y + bubble->line / 2 - side / 2, side, side}, side / 2,
                   colour_of(dim_rgb, 0.55f + 0.4f * swell));
    }
    const float from = bubble->at.x + bubble->pad + bubble->size * 2.6f;
    const float room = bubble->at.x + bubble->at.width - bubble->pad - from;
    const rect all = {from, y + bubble->line / 2 - 2, room, 4}, done = {all.x, all.y, room * digested, 4};
    canvas_box(canvas, all, 2, colour_of(dim_rgb, 0.30f));
    if (digested > 0) canvas_box(canvas, done, 2, colour_of(dim_rgb, 0.9f));
}

void bubble_draw(const talk *talk, canvas *canvas, text *text, float width, float height)
{
    for (int speaker = 0; speaker < SPEAKERS; speaker++) {
        const sample_text *said = &talk->bubbles[speaker];
        const bool speaks = talk->speaker == speaker, thinks = speaks && talk->phase == TALK_REPLY && said->len == 0;
        if (said->len == 0 && !thinks) continue;
        bubble bubble;
        place(&bubble, text, speaker, said, width, height);
        const persona *persona = &script_personas[speaker];
        const float opacity = speaks ? 1 : 0.80f;
        draw_paper(canvas, &bubble, half_of(width, height) / 360, opacity);
        const float x = bubble.at.x + bubble.pad;
        float y = bubble.at.y + bubble.pad * 0.6f;
        text_draw(text, canvas, x, y, bubble.size * 0.82f, colour_of(persona->rgb, 1), persona->name,
                  strlen(persona->name));
        y += bubble.line * 0.9f;
        if (thinks) draw_thinking(canvas, &bubble, y, talk->phase_time, talk->digested);
        const size_t first = bubble.n_lines > SHOWN_LINES ? bubble.n_lines - SHOWN_LINES : 0;
        for (size_t i = first; i < bubble.n_lines; i++, y += bubble.line)
            text_draw(text, canvas, x, y, bubble.size, colour_of(ink_rgb, speaks ? 1 : 0.85f),
                      said->bytes + bubble.lines[i].start, bubble.lines[i].len);
    }
}
