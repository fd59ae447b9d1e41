/* game_cache.h - what the driver compiled, kept for the next start in the user's cache folder: the renderer's
 * pipelines and, as vklm compiles into the same VkPipelineCache, the model's.
 */
#ifndef GAME_CACHE_H
#define GAME_CACHE_H

#include "game_gpu.h"

/* Makes gpu->cache, from the file where there is a sound one. Without a cache all is compiled anew. */
void cache_open(gpu *gpu);

/* Writes the file where there is something new, and destroys gpu->cache. */
void cache_close(gpu *gpu);

#endif
