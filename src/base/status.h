/* status.h - how errors travel inside the library.
 *
 * Every fallible function returns vklm_status and takes `vklm_error *error` (may be NULL). The
 * function that finds the fault calls vki_fail once, with a sentence that names the thing and the
 * remedy; its callers return at once through TRY and add nothing. `assert` is for our own mistakes,
 * status for the world's.
 */
#ifndef VKI_STATUS_H
#define VKI_STATUS_H

#include "vklm/vklm.h"

#if defined(__clang__)
#define VKI_PRINTF(text_at, values_at) __attribute__((format(printf, text_at, values_at)))
#elif defined(__GNUC__) /* C's own formats, also where the system's have others */
#define VKI_PRINTF(text_at, values_at) __attribute__((format(gnu_printf, text_at, values_at)))
#else
#define VKI_PRINTF(text_at, values_at)
#endif

/* Returns from the calling function with the status of `call` unless it is VKLM_OK. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        const vklm_status try_status = (call);                                                     \
        if (try_status != VKLM_OK) return try_status;                                              \
    } while (0)

/* As TRY, for functions with something to undo: jumps to their one label `fail`, with the status in
 * the local variable `status`. */
#define TRY_OR_FAIL(call)                                                                          \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != VKLM_OK) goto fail;                                                          \
    } while (0)

/* Writes status and text into *error (NULL: nowhere) and returns status. */
vklm_status vki_fail(vklm_error *error, vklm_status status, const char *format, ...) VKI_PRINTF(3, 4);

/* A public params struct as the caller's version of the header declares it: copies as much as it has to
 * own[own_size]; what it lacks is zero, the default, and so is all of it where given is NULL. Every such
 * struct begins with its size. INVALID_ARGUMENT where that is not set. */
vklm_status vki_params(void *own, size_t own_size, const void *given, const char *name, vklm_error *error);

/* Clears *error: a public function's first act. */
void vki_error_clear(vklm_error *error);

#endif
