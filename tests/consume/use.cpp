/* use.cpp - the same program as C++. */
#include "use.c"
