// activate.glsl - the activation functions of gated feed-forward layers.
#ifndef ACTIVATE_GLSL
#define ACTIVATE_GLSL

float activate(float z, bool gelu)
{
    if (!gelu) return z / (1.0 + exp(-z));                      // silu
    const float t = 0.7978845608 * (z + 0.044715 * z * z * z); // sqrt(2 / pi)
    return z / (1.0 + exp(-2.0 * t));                           // 0.5 z (1 + tanh t)
}
#endif
