#version 460
// matmul8.comp - y = W x with int8 activations, weights of a quantised format: see lib/matmul.glsl.
#extension GL_GOOGLE_include_directive : require
#define INT8_ACTIVATIONS
#include "lib/matmul.glsl"
