#version 460
// matvec8.comp - the same with int8 activations, weights of a quantised format: see lib/matvec.glsl.
#extension GL_GOOGLE_include_directive : require
#define INT8_ACTIVATIONS
#include "lib/matvec.glsl"
