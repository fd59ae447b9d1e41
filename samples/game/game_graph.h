/* game_graph.h - how long frames took: all of them for the numbers at the end, the last ones as a graph. */
#ifndef GAME_GRAPH_H
#define GAME_GRAPH_H

#include "game_text.h"

enum { GRAPH_FRAMES = 240 }; /* that the graph shows */

typedef struct frame_time {
    float frame_ms; /* from the frame's start to the next one's, without what the game slept */
    float scene_ms; /* of the GPU for the scene; negative: unknown */
} frame_time;

/* Zeroed is empty; graph_free when done. */
typedef struct graph {
    frame_time *times;
    size_t n_times, capacity;
} graph;

void graph_add(graph *graph, frame_time time);
void graph_free(graph *graph);

/* The frame time that `share` of the frames from the one `first` on did not exceed; 0 where there are none. */
double graph_percentile(const graph *graph, size_t first, double share);

/* The means over the frames from `first` on; scene_ms 0 where it is unknown. */
frame_time graph_mean(const graph *graph, size_t first);

/* scale: 1 for a picture 720 pixels high. budget_ms: of the model; negative: there is no model. */
void graph_draw(const graph *graph, canvas *canvas, text *text, rect at, float scale, double budget_ms);

#endif
