/* save.c - sessions as bytes: the history always, the KV cache where it is asked for.
 *
 *     offset  bytes
 *          0      8  "VKLMSESS"
 *          8      4  version of all below, 1
 *         12      4  1: with the cache
 *         16      8  size of the whole
 *         24      8  fingerprint of the vocabulary: without it ids mean nothing
 *         32      8  fingerprint of the model: its keys, its tensors' names, formats and shapes, a sample of weights
 *         40   5 x 4  ids, those of them that the messages are, messages, messages dropped before, bytes of messages
 *         60   8 x 4  of the cache: positions; then what must agree: vklm_kv_type, layers, kv heads, padded head
 *                     size, positions a page, version of the pages' layout, 1 for f32 activations throughout
 *         92      4  0
 *         96         ids, 4 bytes each
 *                    messages: role (0 system, 1 user, 2 assistant) and length, 4 bytes each, then the text
 *                    the cache: page by page as it lies on the device, without positions beyond the last: for each
 *                    layer k, then v; of each the kv heads; of each the positions, a padded head's values
 *       last      8  XXH64 of all before, seed 0
 *
 * Numbers are little-endian, and so are the cache's values. Nothing is trusted: the checksum tells damage, but the
 * sizes are checked as if it did not.
 */
#include "run/engine.h"

#include <string.h>

#include "base/checked.h"
#include "base/hash.h"
#include "file/gguf_read.h"
#include "file/little.h"

/* ---- Fingerprints ------------------------------------------------------------------------------------------ */

static uint64_t hash_text(const char *text, uint64_t seed)
{
    return vki_hash(text, strlen(text), seed);
}

/* All bytes of a key's value. */
static uint64_t hash_value(const vki_gguf_value *value, uint64_t seed)
{
    const uint32_t fixed = vki_gguf_type_bytes(value->type);
    uint64_t hash = hash_text(value->key, seed + value->type + value->count);
    if (fixed) return vki_hash(value->bytes, (size_t)(value->count * fixed), hash);
    for (uint64_t i = 0; i < value->count; i++) {
        const vki_string text = vki_gguf_string_at(value, i);
        hash = vki_hash(text.text, text.len, hash);
    }
    return hash;
}

/* Adds shape, format, and the first bytes of each of a few stretches. */
static vklm_status hash_tensor(const vki_gguf *gguf, const vki_gguf_tensor *tensor, vklm_error *error, uint64_t *hash)
{
    enum { STRETCHES = 4, SAMPLE = 64 };
    *hash = hash_text(tensor->name, *hash + tensor->ggml_id);
    for (size_t d = 0; d < 4; d++) *hash = vki_hash("shape", 5, *hash + tensor->ne[d]);
    for (uint64_t i = 0; i < STRETCHES; i++) {
        const uint64_t from = tensor->size_bytes / STRETCHES * i;
        const size_t n = (size_t)vki_min(tensor->size_bytes - from, SAMPLE);
        uint8_t sample[SAMPLE];
        TRY(vki_gguf_read_tensor(gguf, tensor, from, n, error, sample));
        *hash = vki_hash(sample, n, *hash);
    }
    return VKLM_OK;
}

vklm_status vki_model_fingerprint(vklm_model *model, const vki_gguf *gguf, vklm_error *error)
{
    static const char vocab[] = "tokenizer.ggml.";
    model->vocab_print = model->weights.hparams.n_vocab;
    for (size_t i = 0; i < gguf->n_values; i++)
        if (strncmp(gguf->values[i].key, vocab, sizeof vocab - 1) == 0)
            model->vocab_print = hash_value(&gguf->values[i], model->vocab_print);
    model->model_print = model->vocab_print;
    for (size_t i = 0; i < gguf->n_values; i++)
        if (strncmp(gguf->values[i].key, vocab, sizeof vocab - 1) != 0)
            model->model_print = hash_value(&gguf->values[i], model->model_print);
    for (size_t i = 0; i < gguf->n_tensors; i++)
        TRY(hash_tensor(gguf, &gguf->tensors[i], error, &model->model_print));
    return VKLM_OK;
}

/* ---- The form ---------------------------------------------------------------------------------------------- */

enum {
    VERSION = 1,
    LAYOUT = 1, /* of pages: as shaders/lib/kv.glsl and the permuted heads of model/weights.c have it */
    HEAD_BYTES = 96,
    CHECK_BYTES = 8,
};

static const char magic[8] = {'V', 'K', 'L', 'M', 'S', 'E', 'S', 'S'};

/* What must agree for a cache to be of use, and what follows from it. */
typedef struct geometry {
    uint32_t values[7];     /* as in the file */
    uint64_t position_bytes; /* of all layers */
} geometry;

typedef struct saved {
    uint64_t vocab_print, model_print;
    uint32_t flags, n_ids, n_chat_ids, n_messages, n_dropped, text_bytes, n_cached;
    geometry geometry;
    uint64_t cache_bytes, size; /* of the whole */
} saved;

static geometry geometry_of(const vklm_session *session)
{
    const vklm_model *model = session->model;
    const vki_hparams *h = &model->weights.hparams;
    const vki_heads heads = vki_heads_of(h->n_head, h->n_head_kv, h->d_head, session->kv_type == VKLM_KV_F32);
    return (geometry){.values = {session->kv_type, h->n_layer, heads.n_head_kv, heads.pad, VKI_KV_PAGE_KEYS, LAYOUT,
                                 model->kernels.high_precision}};
}

/* The sizes that follow from the counts; false where they are more than 64 bits hold. */
static bool measure(saved *s)
{
    const uint32_t *g = s->geometry.values;
    uint64_t ids;
    bool good = vki_mul(2 * (uint64_t)g[1], g[2], &s->geometry.position_bytes) &&
                vki_mul(s->geometry.position_bytes, (uint64_t)g[3] * (g[0] == VKLM_KV_F32 ? 4 : 2),
                        &s->geometry.position_bytes) &&
                vki_mul(s->geometry.position_bytes, s->flags & VKLM_SAVE_CACHE ? s->n_cached : 0, &s->cache_bytes);
    ids = (uint64_t)s->n_ids * 4;
    good = good && vki_add(ids, (uint64_t)s->text_bytes + HEAD_BYTES + CHECK_BYTES, &s->size);
    return good && vki_add(s->size, s->cache_bytes, &s->size);
}

/* ---- The cache's bytes ---------------------------------------------------------------------------------- */

/* Moves `used` positions of a page to or from *at, which moves on. upload NULL: from the device. */
static vklm_status move_page(vklm_session *session, const geometry *g, uint32_t page, uint32_t used,
                             vki_upload *upload, uint8_t **at, vklm_error *error)
{
    vki_kv_pool *pool = session->kv.pool;
    const vki_slice *slice = &session->kv.pages[page]->slice;
    const uint64_t head_bytes = g->position_bytes / (2 * (uint64_t)g->values[1] * g->values[2]);
    const uint64_t block = head_bytes * VKI_KV_PAGE_KEYS, part = head_bytes * used; /* of one head */
    const uint64_t most = vki_min(VKI_READ_BYTES, VKI_UPLOAD_HALF_BYTES) / block * block;
    for (uint64_t offset = 0; offset < pool->page_bytes; offset += most) {
        const uint64_t run = vki_min(pool->page_bytes - offset, most);
        const uint8_t *bytes = NULL;
        if (!upload) TRY(vki_copy_read(&pool->copier, &pool->slices, slice, offset, run, error, &bytes));
        for (uint64_t in = 0; in < run; in += block, *at += part) {
            uint8_t *to;
            if (upload) TRY(vki_upload_map(upload, &pool->slices, slice, offset + in, part, error, &to));
            if (upload) memcpy(to, *at, (size_t)part);
            else memcpy(*at, bytes + in, (size_t)part);
        }
    }
    return VKLM_OK;
}

static vklm_status move_cache(vklm_session *session, const saved *s, vki_upload *upload, uint8_t *at,
                              vklm_error *error)
{
    for (uint32_t done = 0; done < s->n_cached; done += VKI_KV_PAGE_KEYS)
        TRY(move_page(session, &s->geometry, done / VKI_KV_PAGE_KEYS,
                      (uint32_t)vki_min(s->n_cached - done, VKI_KV_PAGE_KEYS), upload, &at, error));
    return VKLM_OK;
}

/* ---- Saving ------------------------------------------------------------------------------------------------ */

static void write_head(const saved *s, uint8_t *to)
{
    const uint32_t counts[] = {s->n_ids, s->n_chat_ids, s->n_messages, s->n_dropped, s->text_bytes, s->n_cached};
    memset(to, 0, HEAD_BYTES);
    memcpy(to, magic, sizeof magic);
    vki_store32(to + 8, VERSION);
    vki_store32(to + 12, s->flags);
    vki_store64(to + 16, s->size);
    vki_store64(to + 24, s->vocab_print);
    vki_store64(to + 32, s->model_print);
    for (size_t i = 0; i < 6; i++) vki_store32(to + 40 + 4 * i, counts[i]);
    for (size_t i = 0; i < 7; i++) vki_store32(to + 64 + 4 * i, s->geometry.values[i]);
}

static uint8_t *write_history(const vklm_session *session, uint8_t *to)
{
    for (size_t i = 0; i < session->n_ids; i++, to += 4) vki_store32(to, (uint32_t)session->ids[i]);
    for (size_t i = 0; i < session->chat.n; i++) {
        const vklm_message *message = &session->chat.messages[i];
        const size_t len = strlen(message->content);
        uint32_t role = 0;
        while (strcmp(vki_roles[role], message->role) != 0) role++;
        vki_store32(to, role);
        vki_store32(to + 4, (uint32_t)len);
        memcpy(to + 8, message->content, len);
        to += 8 + len;
    }
    return to;
}

static vklm_status save(vklm_session *session, unsigned flags, vklm_error *error, void *bytes, size_t capacity,
                        size_t *size_out)
{
    const vki_chat *chat = &session->chat;
    saved s = {.vocab_print = session->model->vocab_print, .model_print = session->model->model_print, .flags = flags,
               .n_ids = (uint32_t)session->n_ids, .n_chat_ids = (uint32_t)chat->n_ids, .n_messages = (uint32_t)chat->n,
               .n_dropped = (uint32_t)chat->n_dropped, .geometry = geometry_of(session),
               .n_cached = flags & VKLM_SAVE_CACHE ? (uint32_t)session->n_cached : 0};
    uint64_t text_bytes = 0;
    for (size_t i = 0; i < chat->n; i++) text_bytes += 8 + strlen(chat->messages[i].content);
    s.text_bytes = (uint32_t)text_bytes;
    if (text_bytes > UINT32_MAX || !measure(&s) || s.size > SIZE_MAX)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "the session is too large to be saved on this machine");
    *size_out = (size_t)s.size;
    if (!bytes || capacity < s.size)
        return vki_fail(error, VKLM_BUFFER_TOO_SMALL, "the saved session has %zu bytes, room is for %zu", *size_out,
                        bytes ? capacity : 0);
    write_head(&s, bytes);
    uint8_t *at = write_history(session, (uint8_t *)bytes + HEAD_BYTES);
    TRY(move_cache(session, &s, NULL, at, error));
    vki_store64(at + s.cache_bytes, vki_hash(bytes, (size_t)s.size - CHECK_BYTES, 0));
    return VKLM_OK;
}

vklm_status vklm_session_save(vklm_session *session, unsigned flags, vklm_error *error, void *bytes, size_t capacity,
                              size_t *size_out)
{
    vki_error_clear(error);
    if (size_out) *size_out = 0;
    if (!session || !size_out || (flags & ~(unsigned)VKLM_SAVE_CACHE))
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "no session, no place for the size, or unknown flags %#x", flags);
    vki_mutex_lock(&session->model->lock);
    return vki_unlock(session->model, save(session, flags, error, bytes, capacity, size_out));
}

/* ---- Loading ------------------------------------------------------------------------------------------------- */

static vklm_status bad(vklm_error *error, const char *what)
{
    return vki_fail(error, VKLM_BAD_FILE, "the saved session %s", what);
}

static void read_head(const uint8_t *from, saved *s)
{
    uint32_t *const counts[] = {&s->n_ids, &s->n_chat_ids, &s->n_messages, &s->n_dropped, &s->text_bytes, &s->n_cached};
    s->flags = vki_load32(from + 12);
    s->vocab_print = vki_load64(from + 24);
    s->model_print = vki_load64(from + 32);
    for (size_t i = 0; i < 6; i++) *counts[i] = vki_load32(from + 40 + 4 * i);
    for (size_t i = 0; i < 7; i++) s->geometry.values[i] = vki_load32(from + 64 + 4 * i);
}

static vklm_status check_head(const vklm_session *session, const uint8_t *bytes, size_t size, vklm_error *error,
                              saved *s)
{
    if (size < HEAD_BYTES + CHECK_BYTES || memcmp(bytes, magic, sizeof magic) != 0)
        return bad(error, "is none: it does not begin as one of vklm_session_save does, or is cut off");
    const uint32_t version = vki_load32(bytes + 8);
    if (version != VERSION)
        return vki_fail(error, VKLM_BAD_FILE, "the saved session is of version %u; this library reads version %d",
                        version, VERSION);
    if (vki_load64(bytes + 16) != size)
        return vki_fail(error, VKLM_BAD_FILE, "the saved session has %zu bytes instead of %llu: it is cut off or damaged",
                        size, (unsigned long long)vki_load64(bytes + 16));
    if (vki_load64(bytes + size - CHECK_BYTES) != vki_hash(bytes, size - CHECK_BYTES, 0))
        return bad(error, "is damaged: its checksum is wrong");
    read_head(bytes, s);
    if (!measure(s) || s->size != size || s->n_cached > s->n_ids || s->n_chat_ids > s->n_ids ||
        (s->flags & ~(uint32_t)VKLM_SAVE_CACHE) || (s->flags == 0 && s->n_cached > 0) || vki_load32(bytes + 92) != 0)
        return bad(error, "contradicts itself: the sizes in its head do not agree");
    if (s->vocab_print != session->model->vocab_print)
        return bad(error, "is of a model with another vocabulary: its tokens mean nothing to this one");
    if (s->n_ids > session->context)
        return vki_fail(error, VKLM_CONTEXT_FULL,
                        "the saved session has %u tokens and this one's context is %u: load it into a session with a "
                        "larger context (the model takes %u)",
                        s->n_ids, session->context, session->model->weights.hparams.context_length);
    return VKLM_OK;
}

static vklm_status read_ids(const vklm_session *session, const saved *s, const uint8_t *from, vklm_error *error,
                            vklm_token **ids)
{
    TRY(vki_alloc(&session->model->device->host, s->n_ids, sizeof **ids, error, ids));
    for (size_t i = 0; i < s->n_ids; i++) {
        const uint32_t id = vki_load32(from + 4 * i);
        memcpy(*ids + i, &id, sizeof id);
        if (!session->ids_only && id >= session->model->weights.hparams.n_vocab)
            return bad(error, "holds ids that are in no vocabulary");
    }
    return VKLM_OK;
}

/* The messages of text_bytes bytes, terminated by a copy: vki_chat_copy wants them so. */
static vklm_status read_chat(const vki_host *host, const saved *s, const uint8_t *from, vklm_error *error,
                             vki_chat *chat)
{
    const uint8_t *const end = from + s->text_bytes;
    *chat = (vki_chat){.n_ids = s->n_chat_ids, .n_dropped = s->n_dropped};
    if (s->n_messages > s->text_bytes / 8) return bad(error, "contradicts itself: it has no room for its messages");
    TRY(vki_alloc(host, s->n_messages, sizeof *chat->messages, error, &chat->messages));
    for (; chat->n < s->n_messages; chat->n++) {
        if (end - from < 8) return bad(error, "contradicts itself: a message is cut off");
        const uint32_t role = vki_load32(from), len = vki_load32(from + 4);
        from += 8;
        if (role >= VKI_ROLES || len > (size_t)(end - from) || memchr(from, 0, len))
            return bad(error, "contradicts itself: a message's role or length cannot be");
        char *content;
        TRY(vki_alloc(host, (size_t)len + 1, 1, error, &content));
        if (len) memcpy(content, from, len);
        chat->messages[chat->n] = (vklm_message){vki_roles[role], content};
        from += len;
    }
    return from == end && (chat->n > 0 || chat->n_ids == 0) ? VKLM_OK
                                                            : bad(error, "contradicts itself: messages do not fit their sizes");
}

/* Fills the session's cache, which holds less; where that fails it is empty. */
static vklm_status read_cache(vklm_session *session, const saved *s, const uint8_t *from, vklm_error *error)
{
    vklm_model *model = session->model;
    vki_upload upload = {0};
    vklm_status status;
    bool done;
    session->n_cached = 0;
    vki_kv_trim(&session->kv, 0);
    TRY_OR_FAIL(vki_session_reserve(session, s->n_cached, error));
    /* What left these pages last may still be written there. */
    TRY_OR_FAIL(vki_queue_wait(&model->queue, model->queue.submitted, UINT64_MAX, error, &done));
    TRY_OR_FAIL(vki_upload_begin(&upload, model->device, error));
    TRY_OR_FAIL(move_cache(session, s, &upload, (uint8_t *)(uintptr_t)from, error)); /* only read */
    TRY_OR_FAIL(vki_upload_finish(&upload, error));
    session->n_cached = s->n_cached;
    vki_upload_free(&upload);
    return VKLM_OK;
fail:
    vki_upload_free(&upload);
    vki_kv_trim(&session->kv, 0);
    return status;
}

/* Whether the saved cache holds what this model would. */
static bool cache_fits(const vklm_session *session, const saved *s)
{
    const geometry own = geometry_of(session);
    return s->flags & VKLM_SAVE_CACHE && s->model_print == session->model->model_print &&
           memcmp(own.values, s->geometry.values, sizeof own.values) == 0;
}

static vklm_status load(vklm_session *session, const void *bytes, size_t size, vklm_error *error,
                        size_t *n_reused_out)
{
    TRY(vki_session_settle(session, error));
    TRY(vki_history_check(session, 0, NULL, 0, error));
    const vki_host *host = &session->model->device->host;
    saved s = {0};
    vklm_token *ids = NULL;
    vki_chat chat = {0};
    const uint8_t *const at_ids = (const uint8_t *)bytes + HEAD_BYTES;
    vklm_status status;
    TRY_OR_FAIL(check_head(session, bytes, size, error, &s));
    TRY_OR_FAIL(read_ids(session, &s, at_ids, error, &ids));
    const uint8_t *const at_chat = at_ids + (size_t)s.n_ids * 4;
    TRY_OR_FAIL(read_chat(host, &s, at_chat, error, &chat));
    TRY_OR_FAIL(vki_history_grow(session, s.n_ids, error));
    vki_cache_borrow(session, ids, s.n_ids);
    (void)vki_history_put(session, ids, s.n_ids);
    vki_chat_free(&session->chat, host);
    session->chat = chat;
    session->n_untold_messages = session->n_untold_tokens = 0;
    chat = (vki_chat){0};
    if (cache_fits(session, &s) && s.n_cached > session->n_cached)
        status = read_cache(session, &s, at_chat + s.text_bytes, error);
    if (status == VKLM_OUT_OF_DEVICE_MEMORY || status == VKLM_OUT_OF_MEMORY) {
        vki_error_clear(error); /* the history is there, and the cache can do without */
        status = VKLM_OK;
    }
    if (n_reused_out) *n_reused_out = session->n_cached;
fail:
    vki_release(host, &ids);
    vki_chat_free(&chat, host);
    return status;
}

vklm_status vklm_session_load(vklm_session *session, const void *bytes, size_t size, vklm_error *error,
                              size_t *n_reused_out)
{
    vki_error_clear(error);
    if (n_reused_out) *n_reused_out = 0;
    if (!session || !bytes) return vki_fail(error, VKLM_INVALID_ARGUMENT, "no session, or no bytes to load");
    vki_mutex_lock(&session->model->lock);
    return vki_unlock(session->model, load(session, bytes, size, error, n_reused_out));
}
