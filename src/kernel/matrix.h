/* matrix.h - a weight matrix on the device, as kernels take it. */
#ifndef VKI_MATRIX_H
#define VKI_MATRIX_H

#include "file/format.h"

/* Consecutive output rows of one format, in planes at one address. */
typedef struct vki_segment {
    vki_planes planes;     /* format, rows, units, plane offsets */
    uint64_t address;
    uint32_t first_row;    /* of the matrix */
} vki_segment;

/* rows x cols; y = W x. Rows come from one tensor or from several stacked (q, k and v); a new segment
 * begins where the format changes or where one would grow beyond a device memory block or 32-bit
 * offsets. A row is never cut. */
typedef struct vki_matrix {
    uint32_t rows, cols;
    uint32_t n_segments;
    vki_segment *segments; /* owned by whoever loaded it */
} vki_matrix;

#endif
