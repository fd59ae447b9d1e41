/* formats_ref.h - the weights that blocks of a file and planes of a matrix hold, read one by one. */
#ifndef FORMATS_REF_H
#define FORMATS_REF_H

#include "file/format.h"

/* n weights, a multiple of the block; bit for bit what the formats define. */
void ref_decode(vki_format format, const uint8_t *blocks, uint64_t n, float *weights);

/* units * 32 weights of one row. */
void ref_decode_planes(const vki_planes *planes, const uint8_t *base, uint32_t row, float *weights);

/* To the nearest IEEE half, ties to even, subnormals kept. */
uint16_t ref_f32_to_f16(float value);

#endif
