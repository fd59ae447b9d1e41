/* events.c - what a generation tells its caller: a queue of events with a text beside it, and the blocking form.
 *
 * What an event that was taken points to is copied for its taker: steps on other threads write on. LOGITS events point
 * into the model's host_logits until they are taken, so meanwhile the model stands still.
 */
#include "run/engine.h"

#include <string.h>

#include "base/checked.h"

/* Makes room for one event more, and for so much text. */
static vklm_status reserve_event(vklm_session *session, size_t text_bytes, vklm_error *error)
{
    const vki_host *host = &session->model->device->host;
    if (session->first_event == session->n_events)
        session->first_event = session->n_events = session->text_len = 0;
    TRY(vki_grow(host, session->n_events + 1, sizeof *session->events, error, &session->events,
                 &session->events_capacity));
    return vki_grow(host, session->text_len + text_bytes, 1, error, &session->text, &session->text_capacity);
}

vklm_status vki_session_token_event(vklm_session *session, vklm_token id, const vki_string *text, vklm_error *error,
                                    int32_t *stop)
{
    TRY(reserve_event(session, VKI_TEXT_ROOM(text->len) + VKI_STOP_BYTES, error));
    char *out = session->text + session->text_len;
    vki_stops *stops = &session->stops;
    memcpy(out, stops->held, stops->n_held);
    const size_t n_new = vki_utf8_push(&session->utf8, text->text, text->len, out + stops->n_held);
    vki_queued_event *queued = &session->events[session->n_events++];
    session->model->n_news++;
    queued->text_at = session->text_len;
    queued->event = (vklm_event){.kind = VKLM_EVENT_TOKEN, .id = id, .position = (uint32_t)session->n_ids};
    *stop = vki_stops_push(stops, out, n_new, &queued->event.text_len);
    session->text_len += queued->event.text_len;
    return VKLM_OK;
}

vklm_status vki_session_event(vklm_session *session, const vklm_event *event, vklm_error *error)
{
    TRY(reserve_event(session, 0, error));
    session->events[session->n_events++] = (vki_queued_event){.event = *event};
    session->model->n_news++;
    return VKLM_OK;
}

bool vki_logits_wait(const vklm_model *model)
{
    for (const vklm_session *s = model->sessions; s; s = s->next)
        for (size_t i = s->first_event; s->params.want_logits && i < s->n_events; i++)
            if (s->events[i].event.kind == VKLM_EVENT_LOGITS) return true;
    return false;
}

static bool next_event(vklm_session *session, vklm_event *event_out)
{
    if (session->first_event < session->n_events) {
        const vki_queued_event *queued = &session->events[session->first_event++];
        *event_out = queued->event;
        event_out->text = "";
        if (event_out->text_len) {
            memcpy(session->taken_text, session->text + queued->text_at, event_out->text_len);
            event_out->text = session->taken_text;
        }
        if (event_out->kind != VKLM_EVENT_LOGITS) return true;
        memcpy(session->taken_logits, event_out->logits,
               session->model->weights.hparams.n_vocab * sizeof *event_out->logits);
        event_out->logits = session->taken_logits;
        vki_signal_raise(&session->model->changed);
        return true;
    }
    *event_out = session->done;
    session->done = (vklm_event){.kind = VKLM_EVENT_NONE};
    return event_out->kind != VKLM_EVENT_NONE;
}

bool vklm_session_next_event(vklm_session *session, vklm_event *event_out)
{
    *event_out = (vklm_event){.kind = VKLM_EVENT_NONE};
    if (!session) return false;
    vki_mutex_lock(&session->model->lock);
    const bool taken = next_event(session, event_out);
    vki_mutex_unlock(&session->model->lock);
    return taken;
}

static bool has_news(const vklm_session *session)
{
    return session->first_event < session->n_events || session->phase == VKI_IDLE;
}

/* Another session's LOGITS events are taken, by its own thread; or this one has news all the same. */
static vklm_status wait_for_logits(vklm_session *session, vklm_error *error)
{
    static const uint64_t patience_ns = 1000000000; /* a thread that is to take them does so sooner */
    vklm_model *model = session->model;
    const uint64_t until = vki_now_ns() + patience_ns;
    for (uint64_t now; !has_news(session) && vki_logits_wait(model) && (now = vki_now_ns()) < until;)
        vki_signal_wait(&model->changed, &model->lock, until - now);
    if (has_news(session) || !vki_logits_wait(model)) return VKLM_OK;
    return vki_fail(error, VKLM_INVALID_ARGUMENT,
                    "another session's LOGITS events wait to be taken, and the model with them");
}

/* Until the session has news, or might have. */
static vklm_status wait_for_news(vklm_session *session, vklm_error *error)
{
    vklm_model *model = session->model;
    if (model->worker) { /* it steps, and raises the signal */
        if (vki_logits_wait(model)) return wait_for_logits(session, error);
        if (!has_news(session)) vki_signal_wait(&model->changed, &model->lock, UINT64_MAX);
        return VKLM_OK;
    }
    /* What fails of the session's work arrives as its DONE event. */
    if (vki_model_step(model, 0, NULL) != VKLM_OK || has_news(session)) return VKLM_OK;
    if (model->n_flights > 0) (void)vki_model_wait(model, UINT64_MAX, NULL);
    else if (vki_logits_wait(model)) return wait_for_logits(session, error);
    return VKLM_OK;
}

static vklm_status wait_event(vklm_session *session, vklm_error *error, vklm_event *event_out)
{
    while (!next_event(session, event_out)) {
        if (session->phase == VKI_IDLE)
            return vki_fail(error, VKLM_NOTHING_TO_DO, "the session is not generating and has no events left");
        TRY(wait_for_news(session, error));
    }
    if (event_out->kind == VKLM_EVENT_DONE && event_out->reason == VKLM_DONE_ERROR)
        (void)vki_fail(error, event_out->status, "%.*s", (int)event_out->text_len, event_out->text);
    return VKLM_OK;
}

vklm_status vklm_session_wait_event(vklm_session *session, vklm_error *error, vklm_event *event_out)
{
    vki_error_clear(error);
    if (!session || !event_out) return vki_fail(error, VKLM_INVALID_ARGUMENT, "no session, or no place for the event");
    vki_mutex_lock(&session->model->lock);
    return vki_unlock(session->model, wait_event(session, error, event_out));
}
