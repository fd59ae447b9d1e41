/* game_pipelines.h - what the renderer makes once: render pass, pipelines, the atlas's descriptor. */
#ifndef GAME_PIPELINES_H
#define GAME_PIPELINES_H

#include "game_renderer.h"

bool pipelines_create(renderer *renderer, VkFormat format, bool window);
void pipelines_destroy(renderer *renderer);

#endif
