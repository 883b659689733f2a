// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Stands for NVRTC of any version: it opens and lists architectures; whatever it is asked to compile fails.
#include <stddef.h>
#include <string.h>

enum { kSuccess = 0, kCompilation = 6 };

static const char kLog[] = "the stand-in compiles nothing";

const char* nvrtcGetErrorString(int result) { return result == kSuccess ? "success" : "stand-in error"; }

int nvrtcVersion(int* major, int* minor) {
  *major = STAND_IN_VERSION / 10;
  *minor = STAND_IN_VERSION % 10;
  return kSuccess;
}

int nvrtcGetNumSupportedArchs(int* count) {
  *count = 2;
  return kSuccess;
}

int nvrtcGetSupportedArchs(int* archs) {
  archs[0] = 90;
  archs[1] = 80;
  return kSuccess;
}

int nvrtcCreateProgram(void** program, const char* source, const char* name, int count, const char* const* headers,
                       const char* const* names) {
  (void)source, (void)name, (void)count, (void)headers, (void)names;
  *program = program;
  return kSuccess;
}

int nvrtcDestroyProgram(void** program) {
  *program = NULL;
  return kSuccess;
}

int nvrtcCompileProgram(void* program, int count, const char* const* options) {
  (void)program, (void)count, (void)options;
  return kCompilation;
}

int nvrtcGetProgramLogSize(void* program, size_t* bytes) {
  (void)program;
  *bytes = sizeof kLog;
  return kSuccess;
}

int nvrtcGetProgramLog(void* program, char* log) {
  (void)program;
  memcpy(log, kLog, sizeof kLog);
  return kSuccess;
}

static int no_code(void) { return kCompilation; }
int nvrtcGetPTXSize(void* program, size_t* bytes) { return (void)program, (void)bytes, no_code(); }
int nvrtcGetPTX(void* program, char* ptx) { return (void)program, (void)ptx, no_code(); }
int nvrtcGetCUBINSize(void* program, size_t* bytes) { return (void)program, (void)bytes, no_code(); }
int nvrtcGetCUBIN(void* program, char* cubin) { return (void)program, (void)cubin, no_code(); }
