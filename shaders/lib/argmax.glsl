// argmax.glsl - the larger logit of a workgroup, the lowest id on ties. Every invocation takes part.
#ifndef ARGMAX_GLSL
#define ARGMAX_GLSL

const uint MAX_SUBGROUPS = 64; // 256 invocations at the narrowest subgroup of 4
shared float part_logit[MAX_SUBGROUPS];
shared uint part_id[MAX_SUBGROUPS];

void take_better(inout float best, inout uint best_id, float logit, uint id)
{
    if (logit > best || (logit == best && id < best_id)) {
        best = logit;
        best_id = id;
    }
}

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
#endif
