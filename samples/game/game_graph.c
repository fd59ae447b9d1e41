/* game_graph.c - see game_graph.h. */
#include "game_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample_setup.h"

void graph_add(graph *graph, frame_time time)
{
    if (graph->n_times == graph->capacity) {
        graph->capacity = 2 * graph->capacity + 1024;
        graph->times = must_realloc(graph->times, graph->capacity * sizeof *graph->times);
    }
    graph->times[graph->n_times++] = time;
}

void graph_free(graph *graph)
{
    free(graph->times);
    memset(graph, 0, sizeof *graph);
}

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

double graph_percentile(const graph *graph, size_t first, double share)
{
    if (first >= graph->n_times) return 0;
    const size_t count = graph->n_times - first;
    float *sorted = must_realloc(NULL, count * sizeof *sorted);
    for (size_t i = 0; i < count; i++) sorted[i] = graph->times[first + i].frame_ms;
    qsort(sorted, count, sizeof *sorted, compare);
    const size_t rank = (size_t)(share * (double)count);
    const double value = sorted[rank < count ? rank : count - 1];
    free(sorted);
    return value;
}

frame_time graph_mean(const graph *graph, size_t first)
{
    double frame = 0, scene = 0;
    for (size_t i = first; i < graph->n_times; i++) {
        frame += (double)graph->times[i].frame_ms;
        if (graph->times[i].scene_ms > 0) scene += (double)graph->times[i].scene_ms;
    }
    const double count = graph->n_times > first ? (double)(graph->n_times - first) : 1;
    return (frame_time){(float)(frame / count), (float)(scene / count)};
}

/* ---- The picture ---------------------------------------------------------------------------------- */

static const uint32_t scene_rgb = 0x4FB8C4, rest_rgb = 0xF2B35E, ink_rgb = 0xE6ECF5, back_rgb = 0x060A18;

/* What the top of the graph stands for: the next of 1, 2, 5 times a power of ten above what is common. Slower
 * frames are cut off there. */
static float choose_top(double common_ms)
{
    static const float steps[] = {10, 20, 50, 100, 200, 500, 1000};
    size_t step = 0;
    while (step + 1 < sizeof steps / sizeof *steps && (double)steps[step] < common_ms) step++;
    return steps[step];
}

static void draw_bars(canvas *canvas, rect at, const frame_time *times, size_t count, float top)
{
    const float wide = at.width / GRAPH_FRAMES;
    for (size_t i = 0; i < count; i++) {
        const float x = at.x + at.width - wide * (float)(count - i);
        const float frame = times[i].frame_ms > top ? top : times[i].frame_ms;
        const float scene = times[i].scene_ms < 0 ? 0 : times[i].scene_ms > frame ? frame : times[i].scene_ms;
        const float high = frame / top * at.height, low = scene / top * at.height, foot = at.y + at.height;
        canvas_box(canvas, (rect){x, foot - high, wide, high - low}, 0, colour_of(rest_rgb, 0.95f));
        canvas_box(canvas, (rect){x, foot - low, wide, low}, 0, colour_of(scene_rgb, 0.95f));
    }
}

static void draw_mark(canvas *canvas, text *text, rect at, float size, float ms, float top)
{
    char label[32];
    const int len = snprintf(label, sizeof label, "%g ms", (double)ms);
    const float y = at.y + at.height * (1 - ms / top);
    canvas_box(canvas, (rect){at.x, y, at.width, 1}, 0, colour_of(ink_rgb, 0.22f));
    const float wide = text_width(text, size, label, (size_t)len) + 6, high = text_height(text, size);
    canvas_box(canvas, (rect){at.x, y + 1, wide, high}, 3, colour_of(back_rgb, 0.72f));
    text_draw(text, canvas, at.x + 3, y + 1, size, colour_of(ink_rgb, 1), label, (size_t)len);
}

static float draw_key(canvas *canvas, text *text, float x, float y, float size, uint32_t rgb, const char *label)
{
    canvas_box(canvas, (rect){x, y + size * 0.35f, size * 0.7f, size * 0.7f}, 2, colour_of(rgb, 1));
    return text_draw(text, canvas, x + size, y, size, colour_of(ink_rgb, 1), label, strlen(label)) + size;
}

void graph_draw(const graph *graph, canvas *canvas, text *text, rect at, float scale, double budget_ms)
{
    const size_t count = graph->n_times < GRAPH_FRAMES ? graph->n_times : GRAPH_FRAMES;
    const size_t first = graph->n_times - count;
    const float size = scale * 14 < 10 ? 10 : scale * 14, pad = 10 * scale;
    const float top = choose_top(1.1 * graph_percentile(graph, first, 0.95));
    canvas_box(canvas, at, 8 * scale, colour_of(back_rgb, 0.62f));

    char label[96];
    snprintf(label, sizeof label, "Frame time: median %.1f ms, p99 %.1f ms", graph_percentile(graph, first, 0.5),
             graph_percentile(graph, first, 0.99));
    const float y = at.y + pad * 0.4f;
    float x = text_draw(text, canvas, at.x + pad, y, size, colour_of(ink_rgb, 1), label, strlen(label)) + 2 * size;
    x = draw_key(canvas, text, x, y, size, scene_rgb, "scene");
    if (budget_ms >= 0) draw_key(canvas, text, x, y, size, rest_rgb, "model and the rest");

    const float head = text_height(text, size) + pad * 0.6f;
    const rect plot = {at.x + pad, at.y + head, at.width - 2 * pad, at.height - head - pad * 0.8f};
    draw_bars(canvas, plot, graph->times + first, count, top);
    draw_mark(canvas, text, plot, size * 0.85f, top, top);
    draw_mark(canvas, text, plot, size * 0.85f, top / 2, top);
}
