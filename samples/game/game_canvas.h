/* game_canvas.h - flat shapes in the order they are drawn, as the GPU reads them: shaders/canvas.vert draws each
 * as one quad. Positions are in pixels from the top left corner.
 */
#ifndef GAME_CANVAS_H
#define GAME_CANVAS_H

#include <stddef.h>
#include <stdint.h>

typedef enum shape_kind {
    SHAPE_GLYPH,    /* more: its rectangle in the atlas, in texels */
    SHAPE_BOX,      /* more: radius of the corners, width of the soft edge */
    SHAPE_TRIANGLE, /* corners: the two of `box`, and the first half of `more` */
} shape_kind;

/* An instance of shaders/canvas.vert. */
typedef struct shape {
    float box[4]; /* left, top, right, bottom */
    float more[4];
    uint32_t colour; /* of colour_of */
    uint32_t kind;
} shape;

enum { CANVAS_MOST_SHAPES = 8192 };

/* Zeroed is empty. What does not fit any more is left out. */
typedef struct canvas {
    size_t n_shapes;
    shape shapes[CANVAS_MOST_SHAPES];
} canvas;

typedef struct rect {
    float x, y, width, height;
} rect;

/* 0xRRGGBB and an opacity from 0 to 1. */
uint32_t colour_of(uint32_t rgb, float opacity);

void canvas_add(canvas *canvas, const shape *shape);
void canvas_box(canvas *canvas, rect at, float radius, uint32_t colour);

/* The shadow of a box: `soft` pixels of soft edge around it. */
void canvas_shadow(canvas *canvas, rect at, float radius, float soft, uint32_t colour);
void canvas_triangle(canvas *canvas, const float corners[6], uint32_t colour);

#endif
