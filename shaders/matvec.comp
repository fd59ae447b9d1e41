#version 460
// matvec.comp - a product with one column and f32 activations, and what belongs to it: see lib/matvec.glsl.
#extension GL_GOOGLE_include_directive : require
#include "lib/matvec.glsl"
