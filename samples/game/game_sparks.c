/* game_sparks.c - see game_sparks.h. */
#include "game_sparks.h"

#include <math.h>

enum { SPARKS = 48 };

/* From 0 to 1, the same for the same number. */
static float scatter(int number)
{
    const uint32_t mixed = ((uint32_t)number * 2654435761u) ^ ((uint32_t)number * 40503u << 13);
    return (float)(mixed >> 8 & 0xffff) / 65535;
}

void sparks_draw(canvas *canvas, double time, float width, float height)
{
    const float t = (float)time;
    for (int i = 0; i < SPARKS; i++) {
        const float pace = 0.25f + 0.35f * scatter(i + 500), phase = 6.28f * scatter(i + 900);
        const float x = width * (scatter(i) + 0.03f * sinf(t * pace + phase * 3));
        const float y = height * (0.62f + 0.34f * scatter(i + 100) + 0.03f * sinf(t * pace * 1.7f + phase * 2));
        const float glow = fmaxf(0, sinf(t * (0.6f + scatter(i + 300)) + phase));
        const float radius = height * (0.0016f + 0.0012f * scatter(i + 700));
        const rect dot = {x - radius, y - radius, 2 * radius, 2 * radius};
        canvas_shadow(canvas, dot, radius, radius * 9, colour_of(0xC8FF6A, 0.50f * glow));
        canvas_box(canvas, dot, radius, colour_of(0xF4FFD0, glow));
    }
}
