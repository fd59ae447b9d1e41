/* format.h - the weight formats: one table row each, and the planes kernels read.
 *
 * GGUF's blocks of 18, 22, 144 or 210 bytes force 2-byte loads. At load every matrix is repacked,
 * row by row, into planes whose parts are 16-byte aligned: quants in plane 0, the rest behind. The
 * same bits, only elsewhere, so a matrix in planes is as large as in the file.
 *
 * A unit is 32 consecutive weights of a row; rows are padded with zero weights to whole units (only
 * F32, F16 and BF16 rows can need it). A super is 8 units (the 256-weight blocks of the K formats).
 * Plane p of a matrix begins at offset[p] from the matrix's base and holds rows back to back. Bytes
 * of each plane, per unit or per super:
 *
 *   F32   0: 32 f32 per unit          F16, BF16  0: 32 x 2 bytes per unit
 *   Q8_0  0: 32 i8 per unit           1: d f16 per unit
 *   Q4_0  0: 16 bytes per unit        1: d f16 per unit
 *   Q4_1  0: 16 bytes per unit        1: d f16, m f16 per unit
 *   Q5_0  0: 16 bytes per unit        1: high bits u32 per unit     2: d f16 per unit
 *   Q5_1  0: 16 bytes per unit        1: high bits u32 per unit     2: d f16, m f16 per unit
 *   Q4_K  0: 16 bytes per unit        1: 16 bytes per super
 *   Q6_K  0: 16 bytes per unit        1: high bits 2 x u32 per unit 2: 16 i8 scales per super
 *         3: d f16 per super
 *
 * The 16 bytes of a unit: byte j holds weight j in its low nibble, weight j + 16 in its high one.
 * Q5 high bits: bit 8c + i is the fifth bit of weight 4i + c, bit 8c + 4 + i that of weight
 * 16 + 4i + c (c, i = 0..3), so that (h >> i) & 0x01010101 lines up with dword i of the nibbles.
 * Q6 high bits: bits 8c + 2i, 8c + 2i + 1 of the first dword belong to weight 4i + c, of the second
 * to weight 16 + 4i + c.
 * Q6_K scales: as in the file, i8 k of the super for weights 16k..16k+15.
 * Q4_K super: dword 0 = d f16 (low half), dmin f16 (high half); dword 1: nibble k = low 4 bits of
 * scale k; dword 2: nibble k = low 4 bits of min k; dword 3: bits 2k, 2k + 1 = high 2 bits of scale
 * k, bits 16 + 2k, 17 + 2k = high 2 bits of min k (k = 0..7, one per unit).
 *
 * shaders/format/ holds the GLSL side of the same layout, tests/ref/formats_ref.c reads it weight by weight.
 */
#ifndef VKI_FORMAT_H
#define VKI_FORMAT_H

#include "base/status.h"

typedef enum vki_format {
    VKI_F32,
    VKI_F16,
    VKI_BF16,
    VKI_Q8_0,
    VKI_Q4_0,
    VKI_Q4_1,
    VKI_Q5_0,
    VKI_Q5_1,
    VKI_Q4_K,
    VKI_Q6_K,
    VKI_FORMAT_COUNT,
} vki_format;

enum { VKI_UNIT_WEIGHTS = 32, VKI_SUPER_UNITS = 8, VKI_MAX_PLANES = 4, VKI_PLANE_ALIGNMENT = 256 };

typedef struct vki_format_info {
    const char *name;         /* "Q4_K" */
    const char *shader_name;  /* "q4_k": suffix of shader variants */
    uint32_t ggml_id;
    uint32_t block_weights, block_bytes; /* of the file */
    uint32_t n_planes;
    struct {
        uint32_t bytes;   /* in one part */
        bool per_super;   /* a part is a super, else a unit */
    } planes[VKI_MAX_PLANES];
} vki_format_info;

/* format < VKI_FORMAT_COUNT. */
const vki_format_info *vki_format_get(vki_format format);

/* False where no supported format has this id. */
bool vki_format_from_ggml(uint32_t ggml_id, vki_format *format_out);

/* Any ggml type, supported or not: its name ("IQ4_XS") and the shape of its blocks. False: an
 * unknown or removed id. The reader needs sizes even of what vklm cannot run. */
bool vki_ggml_type(uint32_t ggml_id, const char **name, uint32_t *block_weights, uint32_t *block_bytes);

/* n values of F32, F16 or BF16. */
void vki_floats_decode(vki_format format, const uint8_t *from, uint64_t n, float *values);

/* Of an IEEE half, subnormals kept. */
float vki_f16_to_f32(uint16_t bits);

/* Where the planes of a rows x cols matrix lie. */
typedef struct vki_planes {
    vki_format format;
    uint32_t rows, units;             /* units per row, padding included */
    uint32_t offset[VKI_MAX_PLANES];  /* bytes from the base, multiples of VKI_PLANE_ALIGNMENT */
    uint64_t size_bytes;              /* a multiple of VKI_PLANE_ALIGNMENT */
} vki_planes;

/* False where an offset into the planes would need more than 32 bits: the caller then cuts the
 * matrix into fewer rows. cols: a multiple of the format's block. */
bool vki_planes_init(vki_planes *planes, vki_format format, uint64_t rows, uint64_t cols);

/* Bytes of one row in that plane; row r of it begins so many times r behind the plane's offset. */
uint64_t vki_planes_row_bytes(const vki_planes *planes, uint32_t plane);

/* Repacks one row of the file (cols weights) into row `row` of the planes at `base`. */
void vki_planes_pack_row(const vki_planes *planes, const uint8_t *file_row, uint64_t cols,
                         uint32_t row, uint8_t *base);

/* The same of F32 weights, each multiplied with `scale`. */
void vki_planes_pack_scaled(const vki_planes *planes, const uint8_t *file_row, uint64_t cols, float scale,
                            uint32_t row, uint8_t *base);

#endif
