// format.glsl - the functions of the weight format that this module is compiled for. (GLSL has no
// #include of a macro.)
#if defined(FORMAT_F32)
#include "format/f32.glsl"
#elif defined(FORMAT_F16)
#include "format/f16.glsl"
#elif defined(FORMAT_BF16)
#include "format/bf16.glsl"
#elif defined(FORMAT_Q8_0)
#include "format/q8_0.glsl"
#elif defined(FORMAT_Q4_0)
#include "format/q4_0.glsl"
#elif defined(FORMAT_Q4_1)
#include "format/q4_1.glsl"
#elif defined(FORMAT_Q5_0)
#include "format/q5_0.glsl"
#elif defined(FORMAT_Q5_1)
#include "format/q5_1.glsl"
#elif defined(FORMAT_Q4_K)
#include "format/q4_k.glsl"
#elif defined(FORMAT_Q6_K)
#include "format/q6_k.glsl"
#endif
