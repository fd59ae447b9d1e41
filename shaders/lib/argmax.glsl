// argmax.glsl - the larger logit of a workgroup and of a block of 32, the lowest id on ties.
#ifndef ARGMAX_GLSL
#define ARGMAX_GLSL

const uint PART = 32;          // logits of which the largest stands for all
const uint FEW = 8;            // logits at once, of a part: enough loads under way, not too much code
const uint MAX_SUBGROUPS = 64; // 256 invocations at the narrowest subgroup of 4
shared float part_logit[MAX_SUBGROUPS];
shared uint part_id[MAX_SUBGROUPS];

// Invocations of a workgroup see what others of it wrote.
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Logit { float v; };
layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer Logit4 { vec4 v; };
layout(buffer_reference, std430, buffer_reference_align = 8) coherent buffer Part { uvec2 v; };

void take_better(inout float best, inout uint best_id, float logit, uint id)
{
    if (logit > best || (logit == best && id < best_id)) {
        best = logit;
        best_id = id;
    }
}

// Every invocation takes part and gets the result.
void reduce_best(inout float best, inout uint id, bool one_subgroup)
{
    const float highest = subgroupMax(best);
    id = subgroupMin(best == highest ? id : ~0u);
    best = highest;
    if (one_subgroup) return;
    if (subgroupElect()) {
        part_logit[gl_SubgroupID] = best;
        part_id[gl_SubgroupID] = id;
    }
    barrier();
    for (uint g = 0; g < gl_NumSubgroups; g++) take_better(best, id, part_logit[g], part_id[g]);
}

// The logits of ids first, a multiple of FEW, and on; LOWEST behind the vocabulary's end.
void load_few(uint64_t logits, uint first, uint n_vocab, out vec4 few[2])
{
    [[unroll]] for (uint i = 0; i < 2; i++) {
        few[i] = Logit4(logits + (first + 4u * i) * 4u).v;
        [[unroll]] for (uint k = 0; k < 4; k++) { // by masks: some GPUs have few registers for conditions
            const uint beyond = uint(int(n_vocab - 1u - (first + 4u * i + k)) >> 31);
            few[i][k] = uintBitsToFloat((floatBitsToUint(few[i][k]) & ~beyond) | (floatBitsToUint(LOWEST) & beyond));
        }
    }
}

// The part of ids part * PART on: (largest, its id), LOWEST and ~0 where none is above that, and infinity where one
// is no finite number.
uvec2 best_of_part(uint64_t logits, uint part, uint n_vocab)
{
    float best = LOWEST;
    vec4 few[2];
    uint best_id = ~0u;
    [[dont_unroll]] for (uint i = 0; i < PART; i += FEW) {
        const uint first = part * PART + min(i, PART - FEW);
        load_few(logits, first, n_vocab, few);
        [[unroll]] for (uint k = 0; k < FEW; k++) {
            const float logit = few[k / 4][k % 4], value = is_finite(logit) ? logit : INFINITY;
            if (value > best) {
                best = value;
                best_id = first + k;
            }
        }
    }
    return uvec2(floatBitsToUint(best), best_id);
}
#endif
