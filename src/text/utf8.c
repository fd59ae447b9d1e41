/* utf8.c - UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF.
 *
 * Bytes that are no character are taken by maximal subparts (Unicode 3.9, U+FFFD substitution): the
 * longest run that could have begun a character becomes one U+FFFD, so that a cut character does
 * not swallow what follows it.
 */
#include "text/utf8.h"

#include <string.h>

/* The length that a lead byte promises (0: not a lead byte) and the range of the byte after it,
 * which is what rules out overlong forms, surrogates and code points above U+10FFFF. */
static int promise(uint8_t lead, uint8_t *low, uint8_t *high)
{
    *low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    *high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (lead < 0x80) return 1;
    if (lead < 0xC2 || lead > 0xF4) return 0;
    return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

int vki_utf8_char(const char *bytes, size_t len)
{
    uint8_t low, high;
    const int length = promise((uint8_t)bytes[0], &low, &high);
    if (length == 0) return -1;
    for (int i = 1; i < length; i++) {
        if ((size_t)i == len) return 0;
        const uint8_t byte = (uint8_t)bytes[i];
        if (byte < low || byte > high) return -i;
        low = 0x80;
        high = 0xBF;
    }
    return length;
}

size_t vki_utf8_push(vki_utf8_stream *stream, const char *bytes, size_t len, char *out)
{
    size_t written = 0;
    for (size_t i = 0; i < len; i++) {
        stream->held[stream->n_held++] = bytes[i];
        /* A byte can end a bad run and begin something new, hence the loop. */
        int length;
        while (stream->n_held && (length = vki_utf8_char(stream->held, stream->n_held)) != 0) {
            const uint32_t taken = (uint32_t)(length > 0 ? length : -length);
            const size_t shown = length > 0 ? taken : VKI_UTF8_REPLACEMENT_BYTES;
            memcpy(out + written, length > 0 ? stream->held : VKI_UTF8_REPLACEMENT, shown);
            written += shown;
            stream->n_held -= taken;
            memmove(stream->held, stream->held + taken, stream->n_held);
        }
    }
    return written;
}

size_t vki_utf8_flush(vki_utf8_stream *stream, char *out)
{
    if (stream->n_held == 0) return 0;
    stream->n_held = 0;
    memcpy(out, VKI_UTF8_REPLACEMENT, VKI_UTF8_REPLACEMENT_BYTES);
    return VKI_UTF8_REPLACEMENT_BYTES;
}
