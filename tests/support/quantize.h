/* quantize.h - f32 weights to blocks of each format: to the nearest, without search. Good enough
 * for tests to make tiny models with; a real quantiser looks for better scales. */
#ifndef QUANTIZE_H
#define QUANTIZE_H

#include <stddef.h>

#include "file/format.h"

/* Bytes of n weights (a multiple of the format's block). */
size_t quantized_size(vki_format format, size_t n);

/* blocks: quantized_size(format, n) bytes. */
void quantize(vki_format format, const float *weights, size_t n, uint8_t *blocks);

#endif
