/* game_cache.c - see game_cache.h. The file is a checksum and the driver's bytes, which have its name and version
 * in front: those of another are left out by the driver.
 */
#include "game_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample_files.h"
#include "sample_setup.h"

static const char file_name[] = "game-pipelines";
enum { SUM_BYTES = 8, MOST_BYTES = 64 << 20 };

static uint64_t sum_of(const char *bytes, size_t len)
{
    uint64_t sum = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < len; i++) sum = (sum ^ (uint8_t)bytes[i]) * 1099511628211u;
    return sum;
}

static void read_file(sample_text *kept)
{
    char *path = user_file(USER_CACHE, file_name);
    FILE *file = path ? file_open(path, "rb") : NULL;
    uint64_t sum = 0;
    if (file && (!text_append_file(kept, file) || kept->len <= SUM_BYTES || kept->len > MOST_BYTES)) kept->len = 0;
    if (kept->len) memcpy(&sum, kept->bytes, SUM_BYTES);
    if (kept->len && sum != sum_of(kept->bytes + SUM_BYTES, kept->len - SUM_BYTES)) kept->len = 0;
    if (file) fclose(file);
    free(path);
}

void cache_open(gpu *gpu)
{
    sample_text kept = {0};
    read_file(&kept);
    const VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                            .initialDataSize = kept.len ? kept.len - SUM_BYTES : 0,
                                            .pInitialData = kept.len ? kept.bytes + SUM_BYTES : NULL};
    if (vkCreatePipelineCache(gpu->device, &info, NULL, &gpu->cache) != VK_SUCCESS) gpu->cache = VK_NULL_HANDLE;
    gpu->cache_bytes = info.initialDataSize;
    free(kept.bytes);
}

static void write_file(gpu *gpu)
{
    size_t size = 0;
    if (vkGetPipelineCacheData(gpu->device, gpu->cache, &size, NULL) != VK_SUCCESS || size == gpu->cache_bytes) return;
    char *bytes = must_realloc(NULL, SUM_BYTES + size);
    char *path = user_file(USER_CACHE, file_name);
    if (path && vkGetPipelineCacheData(gpu->device, gpu->cache, &size, bytes + SUM_BYTES) == VK_SUCCESS) {
        const uint64_t sum = sum_of(bytes + SUM_BYTES, size);
        memcpy(bytes, &sum, SUM_BYTES);
        if (!file_replace(path, bytes, SUM_BYTES + size)) gpu_fail("%s cannot be written", path);
    }
    free(path);
    free(bytes);
}

void cache_close(gpu *gpu)
{
    if (gpu->cache) write_file(gpu);
    vkDestroyPipelineCache(gpu->device, gpu->cache, NULL);
    gpu->cache = VK_NULL_HANDLE;
}
