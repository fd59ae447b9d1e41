/* merge.c - the merge loop over a linked list of parts and a binary heap of candidate pairs.
 *
 * A candidate is not taken out of the heap when one of its parts merges with something else; it is
 * recognised when it comes up, because parts only grow: the pair is as it was if and only if both
 * parts are still there and their lengths add up to what was noted.
 */
#include "text/merge.h"

vklm_status vki_merger_add(vki_merger *merger, const vki_host *host, uint32_t start, uint32_t len,
                           uint32_t id, vklm_error *error)
{
    const uint32_t n = (uint32_t)merger->n_parts;
    TRY(vki_grow(host, n + (size_t)1, sizeof *merger->parts, error, &merger->parts, &merger->part_capacity));
    merger->parts[n] = (vki_part){start, len, n - 1, UINT32_MAX, id}; /* 0 - 1 is UINT32_MAX */
    if (n) merger->parts[n - 1].next = n;
    merger->n_parts++;
    return VKLM_OK;
}

static void push(vki_merger *merger, vki_candidate candidate)
{
    vki_candidate *heap = merger->heap;
    size_t at = merger->n_heap++;
    for (size_t parent; at && heap[parent = (at - 1) / 2].key > candidate.key; at = parent)
        heap[at] = heap[parent];
    heap[at] = candidate;
}

static vki_candidate pop(vki_merger *merger)
{
    vki_candidate *heap = merger->heap;
    const vki_candidate best = heap[0], last = heap[--merger->n_heap];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < merger->n_heap; at = child) {
        child += child + 1 < merger->n_heap && heap[child + 1].key < heap[child].key;
        if (heap[child].key >= last.key) break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return best;
}

/* Notes the pair that begins at part `left`, if it is one. */
static vklm_status consider(vki_merger *merger, const vklm_vocab *vocab, const char *text,
                            vki_merge_find *find, uint32_t left, vklm_error *error)
{
    if (left == UINT32_MAX || merger->parts[left].next == UINT32_MAX) return VKLM_OK;
    const vki_part *a = &merger->parts[left], *b = &merger->parts[a->next];
    uint32_t order;
    vki_candidate candidate = {.len = a->len + b->len};
    if (!find(vocab, text, a, b, &order, &candidate.id)) return VKLM_OK;
    candidate.key = (uint64_t)order << 32 | left;
    TRY(vki_grow(&vocab->host, merger->n_heap + 1, sizeof *merger->heap, error, &merger->heap,
                 &merger->heap_capacity));
    push(merger, candidate);
    return VKLM_OK;
}

vklm_status vki_merger_run(vki_merger *merger, const vklm_vocab *vocab, const char *text,
                           vki_merge_find *find, vklm_error *error)
{
    merger->n_heap = 0;
    for (size_t i = 0; i + 1 < merger->n_parts; i++)
        TRY(consider(merger, vocab, text, find, (uint32_t)i, error));
    while (merger->n_heap) {
        const vki_candidate best = pop(merger);
        const uint32_t index = (uint32_t)best.key;
        vki_part *left = &merger->parts[index];
        if (left->len == 0 || left->next == UINT32_MAX) continue;
        vki_part *right = &merger->parts[left->next];
        if (left->len + right->len != best.len) continue;
        left->len = best.len;
        left->id = best.id;
        left->next = right->next;
        right->len = 0;
        if (left->next != UINT32_MAX) merger->parts[left->next].previous = index;
        TRY(consider(merger, vocab, text, find, left->previous, error));
        TRY(consider(merger, vocab, text, find, index, error));
    }
    return VKLM_OK;
}

void vki_merger_free(vki_merger *merger, const vki_host *host)
{
    vki_release(host, &merger->parts);
    vki_release(host, &merger->heap);
    *merger = (vki_merger){0};
}
