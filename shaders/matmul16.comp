#version 460
// matmul16.comp - y = W x on software Vulkan, weights of a quantised format: see lib/matmul16.glsl.
#extension GL_GOOGLE_include_directive : require
#include "lib/matmul16.glsl"
