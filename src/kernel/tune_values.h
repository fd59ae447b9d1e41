/* tune_values.h - values to try for the fields of the tuning table. */
#ifndef VKI_TUNE_VALUES_H
#define VKI_TUNE_VALUES_H

#include <stddef.h>

#include "kernel/tune.h"

enum { VKI_TUNE_WORDS = 8, VKI_TUNE_TEXT = 96 };

typedef struct vki_tune_value {
    const char *field;  /* "matmul8" */
    size_t offset;      /* of the field in vki_tuning; */
    uint32_t n_words;   /* its size, */
    uint32_t words[VKI_TUNE_WORDS]; /* and its value */
} vki_tune_value;

/* All of them; those of one field stand together. */
const vki_tune_value *vki_tune_values(size_t *n);

/* *tuning is base with the value in its field; false where the device cannot run that. */
bool vki_tune_apply(const vki_tune_value *value, const vki_tuning *base, const vki_limits *limits,
                         vki_tuning *tuning);

/* What the tuning has in the value's field, as the table has it: "{64, 4, 8, 1}". */
void vki_tune_text(const vki_tune_value *value, const vki_tuning *tuning, char text[VKI_TUNE_TEXT]);

#endif
