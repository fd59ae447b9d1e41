/* stop.c - a search for few short strings in text that comes in pieces. */
#include "run/stop.h"

#include <string.h>

#include "base/checked.h"
#include "text/utf8.h"

static vklm_status check_string(const char *string, size_t which, vklm_error *error)
{
    if (!string || !*string)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "stop string %zu is empty: every text ends with it", which);
    const size_t len = strlen(string);
    if (len > VKI_STOP_BYTES)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "stop string %zu has %zu bytes; at most %d are taken", which, len,
                        VKI_STOP_BYTES);
    for (size_t at = 0; at < len;) {
        const int n = vki_utf8_char(string + at, len - at);
        if (n <= 0)
            return vki_fail(error, VKLM_INVALID_ARGUMENT, "stop string %zu is not UTF-8 at byte %zu: no text has that",
                            which, at);
        at += (size_t)n;
    }
    return VKLM_OK;
}

vklm_status vki_stops_start(vki_stops *stops, const vki_host *host, const char *const *strings, size_t n,
                            const vklm_token *ids, size_t n_ids, vklm_error *error)
{
    stops->host = host;
    stops->n = stops->n_ids = stops->n_held = 0;
    if ((n && !strings) || (n_ids && !ids))
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "%zu stop strings and %zu stop ids, but no pointer to them", n,
                        n_ids);
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        TRY(check_string(strings[i], i, error));
        bytes += strlen(strings[i]) + 1;
    }
    TRY(vki_grow(host, bytes, 1, error, &stops->text, &stops->text_capacity));
    TRY(vki_grow(host, n_ids, sizeof *ids, error, &stops->ids, &stops->ids_capacity));
    char *at = stops->text;
    for (size_t i = 0; i < n; i++) {
        const size_t size = strlen(strings[i]) + 1;
        memcpy(at, strings[i], size);
        at += size;
    }
    if (n_ids) memcpy(stops->ids, ids, n_ids * sizeof *ids);
    stops->n = n;
    stops->n_ids = n_ids;
    return VKLM_OK;
}

void vki_stops_free(vki_stops *stops)
{
    if (stops->host) {
        vki_release(stops->host, &stops->text);
        vki_release(stops->host, &stops->ids);
    }
    *stops = (vki_stops){0};
}

bool vki_stops_at(const vki_stops *stops, vklm_token id)
{
    for (size_t i = 0; i < stops->n_ids; i++)
        if (stops->ids[i] == id) return true;
    return false;
}

/* The longest string that the first `end` bytes end with; -1: none. */
static int32_t complete_at(const vki_stops *stops, const char *text, size_t end, size_t *len_out)
{
    const char *string = stops->text;
    int32_t found = -1;
    *len_out = 0;
    for (size_t i = 0; i < stops->n; i++) {
        const size_t len = strlen(string);
        if (len > *len_out && len <= end && memcmp(text + end - len, string, len) == 0) {
            *len_out = len;
            found = (int32_t)i;
        }
        string += len + 1;
    }
    return found;
}

/* Whether some string begins with these bytes, and goes on. */
static bool may_become(const vki_stops *stops, const char *text, size_t n)
{
    const char *string = stops->text;
    for (size_t i = 0; i < stops->n; i++) {
        const size_t len = strlen(string);
        if (len > n && memcmp(string, text, n) == 0) return true;
        string += len + 1;
    }
    return false;
}

int32_t vki_stops_push(vki_stops *stops, const char *text, size_t n_new, size_t *n_out)
{
    const size_t n = stops->n_held + n_new;
    for (size_t end = stops->n_held + 1; end <= n; end++) {
        size_t len;
        const int32_t found = complete_at(stops, text, end, &len);
        if (found < 0) continue;
        stops->n_held = 0;
        *n_out = end - len;
        return found;
    }
    size_t held = stops->n ? vki_min(n, VKI_STOP_BYTES - 1) : 0;
    while (held > 0 && !may_become(stops, text + n - held, held)) held--;
    memcpy(stops->held, text + n - held, held);
    stops->n_held = held;
    *n_out = n - held;
    return -1;
}
