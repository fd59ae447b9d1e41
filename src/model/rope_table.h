/* rope_table.h - the rotary tables of vki_weights, in host memory. */
#ifndef VKI_ROPE_TABLE_H
#define VKI_ROPE_TABLE_H

#include "model/arch.h"

/* Of one table. */
uint64_t vki_rope_table_bytes(const vki_hparams *hparams);

/* table: vki_rope_table_bytes of floats. which: VKI_ROPE_FULL or VKI_ROPE_WINDOWED. BAD_FILE: the
 * file's divisors have another shape. */
vklm_status vki_rope_table_make(const vki_hparams *hparams, const vki_gguf *gguf, uint32_t which,
                                const vki_host *host, vklm_error *error, float *table);

#endif
