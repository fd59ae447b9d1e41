/* game_panel.h - the panels at the bottom: the graph of frame times, and the slider of the model's budget. */
#ifndef GAME_PANEL_H
#define GAME_PANEL_H

#include "game_graph.h"
#include "game_model.h"
#include "game_talk.h"

#define PANEL_MOST_MS 20.0 /* the slider's right end */

typedef struct panel {
    double budget_ms; /* 0: the model stands still */
    bool dragging;
    rect track;       /* where the slider was drawn last, pixels */
} panel;

/* Draws both and, above them, how far the load is or why it failed. */
void panel_draw(panel *panel, const graph *graph, const talk *talk, const game_model *model, canvas *canvas,
                text *text, float width, float height);

/* The mouse, in pixels of the picture. */
void panel_mouse(panel *panel, float x, float y, bool down);

#endif
