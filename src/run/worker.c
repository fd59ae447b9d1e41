/* worker.c - vklm_worker: a thread that steps a model for those who would rather not.
 *
 * It holds the model's lock but while it waits: for the device without a budget, for the interval's end with one,
 * for somebody's generate, or for LOGITS events to be taken. Whoever waits for a session's events waits for model->changed,
 * which every step raises that brought some.
 */
#include "run/engine.h"

#include "base/checked.h"

struct vklm_worker {
    vklm_model *model; /* borrowed */
    vklm_worker_params params;
    vki_thread thread;
    uint64_t n_told;   /* of model->n_news */
    bool ends;
};

/* A cancel, which may come from a signal handler, raises nothing: while the model stands still it is looked for. */
static const uint64_t look_ns = 50000000, default_interval_ns = 16666667, longest_interval_ns = 3600000000000;
static const uint64_t breath_ns = 50000; /* between two steps at least: others want the lock, too */

/* Until another step is of use. */
static void rest(vklm_worker *worker, uint64_t step_began_ns)
{
    vklm_model *model = worker->model;
    const uint64_t end_ns = vki_max(step_began_ns + worker->params.interval_ns, vki_now_ns() + breath_ns);
    if (!vki_is_generating(model) && model->n_flights == 0) {
        vki_signal_wait(&model->changed, &model->lock, UINT64_MAX);
    } else if (worker->params.budget_ns) {
        for (uint64_t now; !worker->ends && (now = vki_now_ns()) < end_ns;)
            vki_signal_wait(&model->changed, &model->lock, end_ns - now);
    } else if (model->n_flights > 0) {
        (void)vki_model_wait(model, UINT64_MAX, NULL);
    } else {
        vki_signal_wait(&model->changed, &model->lock, look_ns);
    }
}

static void work(void *user)
{
    vklm_worker *worker = user;
    vklm_model *model = worker->model;
    vki_mutex_lock(&model->lock);
    while (!worker->ends) {
        const uint64_t began_ns = vki_now_ns();
        /* What fails arrives as a DONE event. */
        (void)vki_model_step(model, worker->params.budget_ns, NULL);
        if (model->n_news != worker->n_told) {
            worker->n_told = model->n_news;
            vki_mutex_unlock(&model->lock);
            if (worker->params.ready) worker->params.ready(worker->params.user);
            vki_mutex_lock(&model->lock);
        }
        if (!worker->ends) rest(worker, began_ns);
    }
    vki_mutex_unlock(&model->lock);
}

static vklm_status start(vklm_worker *worker, vklm_error *error)
{
    vklm_model *model = worker->model;
    if (model->worker) return vki_fail(error, VKLM_INVALID_ARGUMENT, "the model has a worker already");
    worker->thread = (vki_thread){.main = work, .user = worker};
    if (!vki_thread_start(&worker->thread))
        return vki_fail(error, VKLM_OUT_OF_MEMORY, "the system gives no thread: step the model instead");
    model->worker = worker;
    vki_signal_raise(&model->changed); /* who was about to step waits from now on */
    return VKLM_OK;
}

vklm_status vklm_worker_create(vklm_model *model, const vklm_worker_params *params, vklm_error *error,
                               vklm_worker **worker_out)
{
    vki_error_clear(error);
    if (worker_out) *worker_out = NULL;
    vklm_worker_params own;
    TRY(vki_params(&own, sizeof own, params, "vklm_worker_params", error));
    if (!model || !worker_out)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "a worker needs a model and a place to go");
    own.interval_ns = own.interval_ns ? vki_min(own.interval_ns, longest_interval_ns) : default_interval_ns;
    const vki_host *host = &model->device->host;
    vklm_worker *worker;
    vki_mutex_lock(&model->lock);
    vklm_status status = vki_alloc(host, 1, sizeof *worker, error, &worker);
    if (status == VKLM_OK) {
        *worker = (vklm_worker){.model = model, .params = own, .n_told = model->n_news};
        status = start(worker, error);
    }
    if (status == VKLM_OK) *worker_out = worker;
    else vki_release(host, &worker);
    vki_mutex_unlock(&model->lock);
    return status;
}

void vklm_worker_destroy(vklm_worker **handle)
{
    vklm_worker *worker = handle ? *handle : NULL;
    if (!worker) return;
    vklm_model *model = worker->model;
    vki_mutex_lock(&model->lock);
    worker->ends = true;
    model->worker = NULL;
    vki_signal_raise(&model->changed);
    vki_mutex_unlock(&model->lock);
    vki_thread_join(&worker->thread);
    vki_mutex_lock(&model->lock);
    vki_release(&model->device->host, handle);
    vki_mutex_unlock(&model->lock);
}
