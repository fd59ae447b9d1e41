/* utf8.h - decoding, and reassembly of characters that tokens cut (tokenizers emit bytes). */
#ifndef VKI_UTF8_H
#define VKI_UTF8_H

#include "base/host.h"

/* Looks at the character that begins at bytes[0] (len at least 1). n > 0: a valid one of n bytes.
 * -n: n bytes (1 to 3) that no continuation can make valid. 0: valid so far, but cut by the end. */
int vki_utf8_char(const char *bytes, size_t len);

/* Collects bytes and gives out only whole characters; what can never become valid is given out as
 * U+FFFD at once. At most 3 bytes are held back. */
typedef struct vki_utf8_stream {
    char held[4];
    uint32_t n_held;
} vki_utf8_stream;

/* Room for what `len` bytes can become: 3 * (len + 3). Returns the bytes written to `out`. */
size_t vki_utf8_push(vki_utf8_stream *stream, const char *bytes, size_t len, char *out);

/* The end: a held tail becomes one U+FFFD. Returns the bytes written (0 or 3). */
size_t vki_utf8_flush(vki_utf8_stream *stream, char *out);

/* U+FFFD, what stands for bytes that are no text. */
#define VKI_UTF8_REPLACEMENT "\xEF\xBF\xBD"
enum { VKI_UTF8_REPLACEMENT_BYTES = 3 };

#endif
