// reduce.glsl - sums and maxima over a workgroup, for kernels with one result a workgroup.
//
// Constant ONE_SUBGROUP (the host knows that the workgroup is one subgroup) folds away the shared
// memory and the barriers. Every invocation takes part and gets the result.
#ifndef REDUCE_GLSL
#define REDUCE_GLSL

const uint MAX_SUBGROUPS = 64; // 256 invocations at the narrowest subgroup of 4
shared float reduce_parts[MAX_SUBGROUPS];

float workgroup_add(float value, bool one_subgroup)
{
    value = subgroupAdd(value);
    if (one_subgroup) return value;
    barrier();
    if (subgroupElect()) reduce_parts[gl_SubgroupID] = value;
    barrier();
    float sum = 0.0;
    for (uint i = 0; i < gl_NumSubgroups; i++) sum += reduce_parts[i];
    return sum;
}
#endif
