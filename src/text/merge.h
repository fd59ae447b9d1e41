/* merge.h - merging neighbours, the loop that BPE and SPM share. They differ in which pairs merge
 * and in what order; both take the best pair first and the leftmost of equals. */
#ifndef VKI_MERGE_H
#define VKI_MERGE_H

#include "text/vocab_types.h"

/* A stretch of the text. len 0: merged into the one before. */
typedef struct vki_part {
    uint32_t start, len;
    uint32_t previous, next; /* indices; UINT32_MAX at the ends */
    uint32_t id;             /* BPE: of the token; VKI_NO_ID: none */
} vki_part;

typedef struct vki_candidate {
    uint64_t key; /* order, then the left part's index: low first */
    uint32_t len; /* of both parts, as it was: another length means that one has merged since */
    uint32_t id;  /* what they become */
} vki_candidate;

typedef struct vki_merger {
    vki_part *parts; /* owned, as below */
    size_t n_parts, part_capacity;
    vki_candidate *heap;
    size_t n_heap, heap_capacity;
} vki_merger;

/* Whether two neighbouring parts of the text merge, when (low orders first), and to what. */
typedef bool vki_merge_find(const vklm_vocab *vocab, const char *text, const vki_part *left,
                            const vki_part *right, uint32_t *order, uint32_t *id);

/* Appends a part of the text; the caller sets n_parts to 0 before the first. */
vklm_status vki_merger_add(vki_merger *merger, const vki_host *host, uint32_t start, uint32_t len,
                           uint32_t id, vklm_error *error);

/* Merges to the end, in O(n log n); what remains are the parts with a length, in order. */
vklm_status vki_merger_run(vki_merger *merger, const vklm_vocab *vocab, const char *text,
                           vki_merge_find *find, vklm_error *error);

/* Safe on a zeroed merger. */
void vki_merger_free(vki_merger *merger, const vki_host *host);

#endif
