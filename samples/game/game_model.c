/* game_model.c - see game_model.h. */
#include "game_model.h"

#include <string.h>
#include <time.h>

#include "sample_setup.h"

static bool on_progress(void *user, double fraction)
{
    game_model *model = user;
    atomic_store(&model->permille, (int)(fraction * 1000));
    return !atomic_load(&model->cancel);
}

static void on_log(void *user, vklm_log_level level, const char *line)
{
    (void)user;
    if (level == VKLM_LOG_WARNING) gpu_fail("%s", line);
}

static void lock_queue(void *user, VkQueue queue)
{
    (void)queue; /* there is one that both use */
    pthread_mutex_lock(&((gpu *)user)->lock);
}

static void unlock_queue(void *user, VkQueue queue)
{
    (void)queue;
    pthread_mutex_unlock(&((gpu *)user)->lock);
}

/* Lends the renderer's device to vklm. */
static vklm_status adopt(game_model *model)
{
    gpu *gpu = model->gpu;
    const vklm_vulkan_requirements *wanted = &gpu->requirements;
    if (wanted->verdict != VKLM_OK) {
        snprintf(model->error.text, sizeof model->error.text, "%s", wanted->reason);
        return wanted->verdict;
    }
    const vklm_device_params settings = {.struct_size = sizeof settings, .log = {on_log, NULL}};
    const vklm_adopt_params params = {.struct_size = sizeof params,
                                      .get_instance_proc_addr = vkGetInstanceProcAddr,
                                      .instance = gpu->instance,
                                      .api_version = VK_API_VERSION_1_2,
                                      .physical_device = gpu->physical,
                                      .device = gpu->device,
                                      .extensions = gpu->extensions,
                                      .n_extensions = gpu->n_extensions,
                                      .features = wanted->features,
                                      .queues = &gpu->model_queue,
                                      .n_queues = 1,
                                      .lock_queue = lock_queue,
                                      .unlock_queue = unlock_queue,
                                      .lock_user = gpu,
                                      .pipeline_cache = gpu->cache,
                                      .settings = &settings};
    return vklm_device_adopt(&params, &model->error, &model->device);
}

static void *load(void *user)
{
    game_model *model = user;
    const vklm_model_params params = {.struct_size = sizeof params,
                                      .path = model->path,
                                      .progress = on_progress,
                                      .progress_user = model,
                                      .threads = model->threads,
                                      .n_expected = 2}; /* both talk: nothing is compiled when the second begins */
    model->status = adopt(model);
    if (model->status == VKLM_OK)
        model->status = vklm_model_load(model->device, &params, &model->error, &model->model);
    atomic_store(&model->loaded, true);
    return NULL;
}

bool model_start(game_model *model, gpu *gpu, const char *path, uint32_t threads)
{
    memset(model, 0, sizeof *model);
    model->gpu = gpu;
    model->path = path;
    model->threads = threads;
    model->state = MODEL_LOADING;
    if (pthread_create(&model->thread, NULL, load, model) != 0) {
        model->state = MODEL_FAILED;
        return gpu_fail("no thread to load the model with");
    }
    model->thread_runs = true;
    return true;
}

static void join(game_model *model)
{
    if (model->thread_runs) pthread_join(model->thread, NULL);
    model->thread_runs = false;
}

bool model_poll(game_model *model)
{
    if (model->state != MODEL_LOADING || !atomic_load(&model->loaded)) return false;
    join(model);
    model->state = model->status == VKLM_OK ? MODEL_READY : MODEL_FAILED;
    if (model->state == MODEL_READY)
        vklm_model_get_info(model->model, &model->info);
    else
        gpu_fail("%s", model->error.text);
    return true;
}

void model_await(game_model *model)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    while (model->state == MODEL_LOADING && !atomic_load(&model->loaded)) {
        progress_show("loading", atomic_load(&model->permille) / 1000.0);
        nanosleep(&pause, NULL);
    }
    progress_clear();
}

void model_step(game_model *model, double budget_ms)
{
    if (model->state != MODEL_READY || budget_ms <= 0) return;
    const vklm_status status = vklm_model_step(model->model, (uint64_t)(budget_ms * 1e6), &model->error);
    if (status == VKLM_DEVICE_LOST) {
        gpu_fail("%s", model->error.text);
        model->state = MODEL_FAILED;
    }
}

void model_work(game_model *model, double budget_ms)
{
    model_step(model, budget_ms);
    if (model->state == MODEL_READY) vklm_model_wait(model->model, (uint64_t)(budget_ms * 1e6), NULL);
}

void model_close(game_model *model)
{
    atomic_store(&model->cancel, true);
    join(model);
    vklm_model_destroy(&model->model);
    vklm_device_destroy(&model->device);
    model->state = MODEL_NONE;
}
