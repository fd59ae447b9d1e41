/* game_canvas.c - see game_canvas.h. */
#include "game_canvas.h"

uint32_t colour_of(uint32_t rgb, float opacity)
{
    const float bounded = opacity < 0 ? 0 : opacity > 1 ? 1 : opacity;
    const uint32_t alpha = (uint32_t)(bounded * 255 + 0.5f);
    return (rgb >> 16 & 0xff) | (rgb & 0xff00) | (rgb & 0xff) << 16 | alpha << 24;
}

void canvas_add(canvas *canvas, const shape *shape)
{
    if (canvas->n_shapes < CANVAS_MOST_SHAPES) canvas->shapes[canvas->n_shapes++] = *shape;
}

void canvas_shadow(canvas *canvas, rect at, float radius, float soft, uint32_t colour)
{
    const shape box = {.box = {at.x, at.y, at.x + at.width, at.y + at.height},
                       .more = {radius, soft, 0, 0},
                       .colour = colour,
                       .kind = SHAPE_BOX};
    canvas_add(canvas, &box);
}

void canvas_box(canvas *canvas, rect at, float radius, uint32_t colour)
{
    canvas_shadow(canvas, at, radius, 1, colour);
}

void canvas_triangle(canvas *canvas, const float corners[6], uint32_t colour)
{
    const shape triangle = {.box = {corners[0], corners[1], corners[2], corners[3]},
                            .more = {corners[4], corners[5], 0, 0},
                            .colour = colour,
                            .kind = SHAPE_TRIANGLE};
    canvas_add(canvas, &triangle);
}
