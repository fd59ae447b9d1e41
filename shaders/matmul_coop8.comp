#version 460
// matmul_coop8.comp - y = W x by cooperative matrices of int8, weights of a quantised format: see lib/matmul_coop.glsl.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#define INT8_ACTIVATIONS
#include "lib/matmul_coop.glsl"
