#version 460
// matmul.comp - y = W x with f32 activations, weights of any format: see lib/matmul.glsl.
#extension GL_GOOGLE_include_directive : require
#include "lib/matmul.glsl"
