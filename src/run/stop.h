/* stop.h - strings and ids that end a generation.
 *
 * Text is searched byte by byte as if it had come that way, so the result does not depend on where tokens end: the
 * first string to be complete counts, of several that end together the longest. What may still become one is held back.
 */
#ifndef VKI_STOP_H
#define VKI_STOP_H

#include "base/host.h"

enum { VKI_STOP_BYTES = 255 }; /* of a stop string, at most */

typedef struct vki_stops {
    const vki_host *host;      /* borrowed */
    char *text;                /* owned: the strings, one behind the other, terminated */
    size_t n, text_capacity;
    vklm_token *ids;           /* owned */
    size_t n_ids, ids_capacity;
    char held[VKI_STOP_BYTES]; /* the end of the text so far, which may become one; less than a stop string */
    size_t n_held;
} vki_stops;

/* Copies; keeps the memory of an earlier start. INVALID_ARGUMENT: a string that is NULL, empty, too long or not UTF-8. */
vklm_status vki_stops_start(vki_stops *stops, const vki_host *host, const char *const *strings, size_t n,
                            const vklm_token *ids, size_t n_ids, vklm_error *error);
void vki_stops_free(vki_stops *stops);

bool vki_stops_at(const vki_stops *stops, vklm_token id);
/* In `text` lie the held bytes and n_new behind them, all of it characters. Leaves *n_out of them to be given out,
 * holds what may become a stop string, and returns which one is complete, or -1; what is behind it is lost. */
int32_t vki_stops_push(vki_stops *stops, const char *text, size_t n_new, size_t *n_out);

#endif
