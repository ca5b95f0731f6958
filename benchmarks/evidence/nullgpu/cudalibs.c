/* cuBLAS, cuDNN, cuFFT, cuSOLVER, NVRTC, NCCL, CUPTI and the driver, as far as a torch wheel waits for an answer.
 *
 * Every other entry point is made by `libraries.py`: it returns 0, and where it would compute, notes its own name. What
 * these libraries would do inside is not seen here.
 */
#include <stdlib.h>
#include <string.h>

typedef int E;
extern void nullgpu_note(const char *name);

#define HANDLE(name) \
  E name(void **p) { \
    *p = calloc(1, 4096); \
    return 0; \
  }
#define ANSWER(name, type, value, ...) \
  E name(__VA_ARGS__, type *v) { \
    *v = value; \
    return 0; \
  }

/* cuBLAS */
HANDLE(cublasCreate_v2)
HANDLE(cublasLtCreate)
HANDLE(cublasLtMatmulDescCreate)
HANDLE(cublasLtMatmulPreferenceCreate)
HANDLE(cublasLtMatrixLayoutCreate)
ANSWER(cublasGetPointerMode_v2, int, 0, void *h)
ANSWER(cublasGetMathMode, int, 0, void *h)
ANSWER(cublasGetVersion_v2, int, 130000, void *h)
ANSWER(cublasGetStream_v2, void *, 0, void *h)
ANSWER(cublasGetProperty, int, t == 0 ? 13 : 0, int t)
ANSWER(cublasGetSmCountTarget, int, 0, void *h)
ANSWER(cublasGetAtomicsMode, int, 0, void *h)
ANSWER(cublasGetEmulationStrategy, int, 0, void *h)
size_t cublasLtGetVersion(void) { return 130000; }
E cublasLtMatmulAlgoGetHeuristic(void *h, void *a, void *b, void *c, void *d, void *e, void *f, int n, void *results,
                                 int *found) {
  memset(results, 0, 96);
  *found = 1;
  return 0;
}

/* cuDNN: NULLGPU_CUDNN names the version that it claims to be. */
static size_t cudnn_version(void) {
  const char *text = getenv("NULLGPU_CUDNN");
  return text ? strtoul(text, 0, 10) : 92000;
}
size_t cudnnGetVersion(void) { return cudnn_version(); }
size_t cudnnGetCudartVersion(void) { return 13000; }
E cudnnGetProperty(int type, int *v) {
  int version = (int)cudnn_version();
  *v = type == 0 ? version / 10000 : type == 1 ? (version % 10000) / 100 : version % 100;
  return 0;
}
const char *cudnnGetErrorString(int e) { return "null cudnn"; }
void cudnnGetLastErrorString(char *text, size_t n) {
  if (n) text[0] = 0;
}
HANDLE(cudnnCreate)
HANDLE(cudnnCreateActivationDescriptor)
HANDLE(cudnnCreateCTCLossDescriptor)
HANDLE(cudnnCreateConvolutionDescriptor)
HANDLE(cudnnCreateDropoutDescriptor)
HANDLE(cudnnCreateFilterDescriptor)
HANDLE(cudnnCreatePoolingDescriptor)
HANDLE(cudnnCreateRNNDataDescriptor)
HANDLE(cudnnCreateRNNDescriptor)
HANDLE(cudnnCreateSpatialTransformerDescriptor)
HANDLE(cudnnCreateTensorDescriptor)
ANSWER(cudnnGetStream, void *, 0, void *h)
ANSWER(cudnnDropoutGetStatesSize, size_t, 1024, void *h)
ANSWER(cudnnGetRNNWeightSpaceSize, size_t, 0, void *h, void *d)
E cudnnGetRNNTempSpaceSizes(void *h, void *d, int m, void *x, size_t *work, size_t *reserve) {
  if (work) *work = 1024;
  if (reserve) *reserve = 1024;
  return 0;
}
E cudnnGetRNNWeightParams(void *h, void *d, int l, size_t n, const void *w, int id, void *md, void **m, void *bd,
                          void **b) {
  *m = *b = (void *)w;
  return 0;
}
ANSWER(cudnnGetCTCLossWorkspaceSize, size_t, 1024, void *a, void *b, void *c, void *d, void *e, void *f, int g, void *h)
ANSWER(cudnnGetCTCLossWorkspaceSize_v8, size_t, 1024, void *a, int b, void *c, void *d, void *e)
ANSWER(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize, size_t, 1024, void *a, int b, int c, void *d, void *e,
       void *f, void *g, void *h)
ANSWER(cudnnGetBatchNormalizationTrainingExReserveSpaceSize, size_t, 1024, void *a, int b, int c, void *d, void *e)
ANSWER(cudnnGetBatchNormalizationBackwardExWorkspaceSize, size_t, 1024, void *a, int b, int c, void *d, void *e,
       void *f, void *g, void *h, void *i, void *j)
ANSWER(cudnnGetConvolutionForwardWorkspaceSize, size_t, 1024, void *a, void *b, void *c, void *d, void *e, int f)
ANSWER(cudnnGetConvolutionBackwardDataWorkspaceSize, size_t, 1024, void *a, void *b, void *c, void *d, void *e, int f)
ANSWER(cudnnGetConvolutionBackwardFilterWorkspaceSize, size_t, 1024, void *a, void *b, void *c, void *d, void *e, int f)
E cudnnBackendCreateDescriptor(int type, void **p) {
  *p = calloc(1, 4096);
  return 0;
}
E cudnnBackendGetAttribute(void *descriptor, int name, int type, long wanted, long *count, void *values) {
  int is_descriptor = type == 15, is_int64 = type == 3;
  if (is_int64 && values && wanted > 0) *(long *)values = 0;
  if (count) *count = is_descriptor || is_int64;
  return 0;
}
E cudnnGetFilterNdDescriptor(void *d, int n, int *type, int *format, int *dims, int *sizes) {
  if (type) *type = 0;
  if (format) *format = 0;
  if (dims) *dims = 3;
  for (int i = 0; sizes && i < n; i++) sizes[i] = 1;
  return 0;
}
E cudnnGetTensorNdDescriptor(void *d, int n, int *type, int *dims, int *sizes, int *strides) {
  if (type) *type = 0;
  if (dims) *dims = 3;
  for (int i = 0; i < n; i++) {
    if (sizes) sizes[i] = 1;
    if (strides) strides[i] = 1;
  }
  return 0;
}

/* cuFFT, cuSOLVER, cuSPARSE */
E cufftCreate(int *p) {
  *p = 1;
  return 0;
}
E cufftXtMakePlanMany(int p, int r, void *n, void *a, long b, long c, int d, void *e, long f, long g, int h, long i,
                      size_t *workspace, int j) {
  *workspace = 0;
  return 0;
}
HANDLE(cusolverDnCreate)
HANDLE(cusolverDnCreateGesvdjInfo)
HANDLE(cusolverDnCreateParams)
HANDLE(cusparseCreate)
HANDLE(cusparseCreateMatDescr)

/* NVRTC */
HANDLE(nvrtcCreateProgram)
ANSWER(nvrtcGetCUBINSize, size_t, 16, void *p)
ANSWER(nvrtcGetPTXSize, size_t, 16, void *p)
ANSWER(nvrtcGetProgramLogSize, size_t, 1, void *p)
E nvrtcGetCUBIN(void *p, char *c) {
  memset(c, 0, 16);
  return 0;
}
E nvrtcGetPTX(void *p, char *c) {
  memset(c, 0, 16);
  return 0;
}
E nvrtcGetProgramLog(void *p, char *c) {
  c[0] = 0;
  return 0;
}
E nvrtcGetLoweredName(void *p, const char *n, const char **lowered) {
  *lowered = "kernel";
  return 0;
}
E nvrtcVersion(int *a, int *b) {
  *a = 13;
  *b = 0;
  return 0;
}
const char *nvrtcGetErrorString(int e) { return "null nvrtc"; }

/* NCCL */
HANDLE(ncclCommInitRank)
HANDLE(ncclCommInitRankConfig)
ANSWER(ncclCommGetAsyncError, int, 0, void *c)
E ncclGetVersion(int *v) {
  *v = 22700;
  return 0;
}
const char *ncclGetErrorString(int e) { return "null nccl"; }
const char *ncclGetLastError(void *c) { return "null nccl"; }
E ncclGetUniqueId(void *p) {
  memset(p, 0, 128);
  return 0;
}
E ncclCommInitAll(void **p, int n) {
  for (int i = 0; i < n; i++) p[i] = calloc(1, 64);
  return 0;
}

/* The driver */
static E handed(void **p) {
  *p = (void *)16;
  return 0;
}
E cuDriverGetVersion(int *v) {
  *v = 13000;
  return 0;
}
E cuDeviceGet(int *v, int n) {
  *v = 0;
  return 0;
}
E cuDeviceGetCount(int *n) {
  *n = 1;
  return 0;
}
E cuDeviceGetName(char *s, int n) {
  strncpy(s, "NullGPU", n);
  return 0;
}
E cuDeviceGetUuid(void *u) {
  memset(u, 0, 16);
  return 0;
}
E cuDeviceGetAttribute(int *v, int attribute, int device) {
  *v = attribute == 75 ? 9 : attribute == 16 ? 132 : attribute == 10 ? 32 : 0;
  return 0;
}
E cuDeviceComputeCapability(int *a, int *b, int device) {
  *a = 9;
  *b = 0;
  return 0;
}
E cuDeviceTotalMem_v2(size_t *n) {
  *n = 80ull << 30;
  return 0;
}
E cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
  *flags = 0;
  *active = 1;
  return 0;
}
E cuDevicePrimaryCtxRetain(void **c, int device) { return handed(c); }
E cuCtxGetCurrent(void **c) { return handed(c); }
E cuStreamGetCtx(void *s, void **c) { return handed(c); }
E cuCtxGetDevice(int *d) {
  *d = 0;
  return 0;
}
E cuModuleLoad(void **m) { return handed(m); }
E cuModuleLoadData(void **m) { return handed(m); }
E cuModuleLoadDataEx(void **m) { return handed(m); }
E cuModuleGetFunction(void **f) { return handed(f); }
E cuLaunchKernel(void) {
  nullgpu_note("cuLaunchKernel");
  return 0;
}
E cuLaunchKernelEx(void) {
  nullgpu_note("cuLaunchKernelEx");
  return 0;
}
E cuLaunchCooperativeKernel(void) {
  nullgpu_note("cuLaunchCooperativeKernel");
  return 0;
}
E cuLinkCreate_v2(unsigned n, void *o, void *v, void **s) { return handed(s); }
E cuLinkComplete(void *s, void **code, size_t *n) {
  static char empty[64];
  *code = empty;
  *n = sizeof empty;
  return 0;
}
E cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n) {
  *n = 8;
  return 0;
}
E cuFuncGetAttribute(int *v) {
  *v = 0;
  return 0;
}
E cuPointerGetAttribute(void *v, int attribute, void *p) {
  *(long *)v = 0;
  return 0;
}
E cuGetErrorString(int e, const char **s) {
  *s = "null driver";
  return 0;
}
E cuGetErrorName(int e, const char **s) {
  *s = "null driver";
  return 0;
}
E cuGetProcAddress_v2(const char *name, void **p, int version, unsigned long flags, int *query) {
  *p = 0;
  if (query) *query = 1;
  return 0;
}
E cuMemGetAddressRange_v2(void **base, size_t *n, void *p) {
  *base = p;
  *n = 1 << 20;
  return 0;
}
E cuMemGetAllocationGranularity(size_t *n) {
  *n = 2 << 20;
  return 0;
}
E cuMulticastGetGranularity(size_t *n) {
  *n = 2 << 20;
  return 0;
}

/* CUPTI */
E cuptiGetVersion(unsigned *v) {
  *v = 130000;
  return 0;
}
E cuptiSubscribe(void **p) { return handed(p); }
E cuptiActivityGetNextRecord(void) { return 12; }
E cuptiActivityGetNumDroppedRecords(void *c, unsigned s, size_t *n) {
  *n = 0;
  return 0;
}
E cuptiDeviceGetAttribute(void) { return 1; }
E cuptiGetResultString(int e, const char **s) {
  *s = "null cupti";
  return 0;
}
ANSWER(cuptiGetContextId, unsigned, 0, void *c)
ANSWER(cuptiGetDeviceId, unsigned, 0, void *c)
ANSWER(cuptiGetStreamIdEx, unsigned, 0, void *c, void *s, int p)
E cuptiGetTimestamp(unsigned long *t) {
  *t = 0;
  return 0;
}
