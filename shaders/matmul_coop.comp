#version 460
// matmul_coop.comp - y = W x by cooperative matrices of f16, weights of any format: see lib/matmul_coop.glsl.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#include "lib/matmul_coop.glsl"
