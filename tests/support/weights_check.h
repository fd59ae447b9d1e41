/* weights_check.h - compares a model on the device with its file, weight by weight. */
#ifndef WEIGHTS_CHECK_H
#define WEIGHTS_CHECK_H

#include "model/model.h"

/* Everything but the rotary tables, where the host can see device memory. */
void check_weights(const vki_weights *loaded, const vki_gguf *file);

/* Where the host sees size_bytes from this device address on. */
const uint8_t *weights_at(const vki_weights *of, uint64_t address, uint64_t size_bytes);

#endif
