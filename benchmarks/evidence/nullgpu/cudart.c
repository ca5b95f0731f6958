/* A CUDA runtime without a device: memory is the host's, a launch does nothing but note the kernel's name.
 *
 * Only what a torch wheel needs an answer from stands here; every other entry point that a wheel asks for is made by
 * `libraries.py` and returns 0, or an error where it says so. What is computed on such a device is zeros or garbage.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "driver_types.h"
#include "vector_types.h"

#ifndef CUDA_VERSION
#define CUDA_VERSION 13000
#endif

typedef int E;

/* The log: names of kernels and of library calls, in the order in which they were launched. */
#define LOG_SIZE (1 << 16)
static const char *log_names[LOG_SIZE];
static volatile int log_length = 0;
static int is_logging = 0;
void nullgpu_log(int on) {
  is_logging = on;
  log_length = 0;
}
int nullgpu_count(void) { return log_length; }
const char *nullgpu_name(int i) { return log_names[i]; }
void nullgpu_note(const char *name) {
  if (!is_logging) return;
  int i = __sync_fetch_and_add(&log_length, 1);
  if (i < LOG_SIZE) log_names[i] = name;
}

/* Kernels by the address of their host stub, as the wheel's own initialisers register them. */
#define KERNELS (1 << 20)
static struct {
  const void *stub;
  const char *name;
} kernels[KERNELS];
static unsigned place_of(const void *stub) {
  unsigned place = (((unsigned long)stub >> 4) * 0x9E3779B97F4A7C15ul) >> 44;
  while (kernels[place].stub && kernels[place].stub != stub) place = (place + 1) & (KERNELS - 1);
  return place;
}
void __cudaRegisterFunction(void **binary, const char *stub, char *device, const char *name, int limit, void *a,
                            void *b, void *c, void *d, int *e) {
  unsigned place = place_of(stub);
  kernels[place].stub = stub;
  kernels[place].name = name;
}
static void launched(const void *stub) {
  const char *name = kernels[place_of(stub)].name;
  nullgpu_note(name ? name : "?");
}
E cudaLaunchKernel(const void *f, dim3 g, dim3 b, void **a, size_t s, void *st) {
  launched(f);
  return 0;
}
E __cudaLaunchKernel(const void *f, dim3 g, dim3 b, void **a, size_t s, void *st) {
  launched(f);
  return 0;
}
E cudaLaunchKernel_ptsz(const void *f) {
  launched(f);
  return 0;
}
E cudaLaunchKernelExC(const void *config, const void *f, void **a) {
  launched(f);
  return 0;
}
E cudaLaunchCooperativeKernel(const void *f, dim3 g, dim3 b, void **a, size_t s, void *st) {
  launched(f);
  return 0;
}
E cudaLaunchHostFunc(void *s, void (*f)(void *), void *data) {
  f(data);
  return 0;
}
E cudaStreamAddCallback(void *s, void (*f)(void *, int, void *), void *data, unsigned g) {
  f(s, 0, data);
  return 0;
}
E __cudaGetKernel(void **kernel, const void *f) {
  *kernel = (void *)f;
  return 0;
}
E cudaGetFuncBySymbol(void **kernel, const void *f) {
  *kernel = (void *)f;
  return 0;
}
E cudaFuncGetName(const char **name, const void *f) {
  *name = "kernel";
  return 0;
}
char __cudaInitModule(void **handle) { return 1; }
unsigned __cudaPushCallConfiguration(dim3 g, dim3 b, size_t s, void *st) { return 0; }
E __cudaPopCallConfiguration(dim3 *g, dim3 *b, size_t *s, void *st) {
  dim3 one = {1, 1, 1};
  *g = *b = one;
  *s = 0;
  *(void **)st = 0;
  return 0;
}

/* The device: as large as an H100; NULLGPU_CC names another capability (80, 90, 100), and an empty
 * CUDA_VISIBLE_DEVICES hides it. */
static int major = 9, minor = 0;
__attribute__((constructor)) static void read_capability(void) {
  const char *text = getenv("NULLGPU_CC");
  if (!text) return;
  int both = atoi(text);
  major = both / 10;
  minor = both % 10;
}
E cudaGetDeviceCount(int *n) {
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  *n = !visible || *visible;
  return *n ? 0 : 100; /* cudaErrorNoDevice */
}
E cudaGetDevice(int *n) {
  *n = 0;
  return 0;
}
E cudaChooseDevice(int *n) {
  *n = 0;
  return 0;
}
E cudaDeviceGetByPCIBusId(int *n, const char *bus) {
  *n = 0;
  return 0;
}
E cudaDeviceGetPCIBusId(char *bus, int n, int device) {
  strncpy(bus, "0000:00:00.0", n);
  return 0;
}
E cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) {
  memset(p, 0, sizeof *p);
  strcpy(p->name, "NullGPU");
  p->totalGlobalMem = 80ull << 30;
  p->sharedMemPerBlock = 49152;
  p->regsPerBlock = 65536;
  p->warpSize = 32;
  p->memPitch = 2147483647;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 2147483647;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->totalConstMem = 65536;
  p->major = major;
  p->minor = minor;
  p->textureAlignment = 512;
  p->texturePitchAlignment = 32;
  p->multiProcessorCount = 132;
  p->unifiedAddressing = 1;
  p->memoryBusWidth = 5120;
  p->l2CacheSize = 50 << 20;
  p->maxThreadsPerMultiProcessor = 2048;
  p->sharedMemPerMultiprocessor = 233472;
  p->regsPerMultiprocessor = 65536;
  p->managedMemory = 1;
  p->concurrentKernels = 1;
  p->sharedMemPerBlockOptin = 232448;
  p->cooperativeLaunch = 1;
  p->concurrentManagedAccess = 1;
  p->pageableMemoryAccess = 1;
  p->asyncEngineCount = 3;
  p->canMapHostMemory = 1;
  p->maxBlocksPerMultiProcessor = 32;
  return 0;
}
E cudaGetDeviceProperties_v2(struct cudaDeviceProp *p, int device) { return cudaGetDeviceProperties(p, device); }
E cudaDeviceGetAttribute(int *v, int attribute, int device) { /* numbered as in driver_types.h */
  switch (attribute) {
    case 1: case 2: case 3: *v = 1024; break;
    case 4: *v = 64; break;
    case 5: *v = 2147483647; break;
    case 6: case 7: *v = 65535; break;
    case 8: *v = 49152; break;
    case 9: case 12: case 82: *v = 65536; break;
    case 10: case 106: *v = 32; break;
    case 16: *v = 132; break;
    case 38: *v = 50 << 20; break;
    case 39: *v = 2048; break;
    case 75: *v = major; break;
    case 76: *v = minor; break;
    case 81: *v = 233472; break;
    case 95: case 96: case 115: *v = 1; break;
    case 97: *v = 232448; break;
    default: *v = 0;
  }
  return 0;
}
E cudaDriverGetVersion(int *v) {
  *v = CUDA_VERSION;
  return 0;
}
E cudaRuntimeGetVersion(int *v) {
  *v = CUDA_VERSION;
  return 0;
}
E cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *f) {
  memset(a, 0, sizeof *a);
  a->maxThreadsPerBlock = 1024;
  a->numRegs = 32;
  a->ptxVersion = a->binaryVersion = major * 10 + minor;
  a->maxDynamicSharedSizeBytes = 49152;
  return 0;
}
E cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *f, int b, size_t s) {
  *n = 8;
  return 0;
}
E cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, const void *f, int b, size_t s, unsigned g) {
  *n = 8;
  return 0;
}
E cudaOccupancyMaxActiveClusters(int *n, const void *f, const void *config) {
  *n = 8;
  return 0;
}
E cudaOccupancyMaxPotentialClusterSize(int *n, const void *f, const void *config) {
  *n = 8;
  return 0;
}
E cudaOccupancyAvailableDynamicSMemPerBlock(size_t *s, const void *f, int a, int b) {
  *s = 49152;
  return 0;
}
E cudaDeviceGetLimit(size_t *v, int limit) {
  *v = 8 << 20;
  return 0;
}
const char *cudaGetErrorString(E e) { return "null gpu error"; }
const char *cudaGetErrorName(E e) { return "nullGpuError"; }

/* Memory: the host's, zeroed, up to 4 GiB a piece. */
static E given(void **p, size_t n) {
  *p = 0;
  if (n > (4ull << 30) || posix_memalign(p, 512, n ? n : 1)) return 2;
  memset(*p, 0, n);
  return 0;
}
E cudaMalloc(void **p, size_t n) { return given(p, n); }
E cudaMallocAsync(void **p, size_t n, void *s) { return given(p, n); }
E cudaMallocFromPoolAsync(void **p, size_t n) { return given(p, n); }
E cudaMallocHost(void **p, size_t n) { return given(p, n); }
E cudaMallocManaged(void **p, size_t n, unsigned f) { return given(p, n); }
E cudaHostAlloc(void **p, size_t n, unsigned f) { return given(p, n); }
E cudaMallocPitch(void **p, size_t *pitch, size_t w, size_t h) {
  *pitch = w;
  return given(p, w * h);
}
E cudaFree(void *p) {
  free(p);
  return 0;
}
E cudaFreeAsync(void *p, void *s) {
  free(p);
  return 0;
}
E cudaFreeHost(void *p) {
  free(p);
  return 0;
}
static E moved(void *to, const void *from, size_t n) {
  if (n) memmove(to, from, n);
  return 0;
}
static E moved_rows(char *to, size_t tp, const char *from, size_t fp, size_t w, size_t h) {
  for (size_t i = 0; i < h; i++) memmove(to + i * tp, from + i * fp, w);
  return 0;
}
E cudaMemcpy(void *d, const void *s, size_t n, int k) { return moved(d, s, n); }
E cudaMemcpyAsync(void *d, const void *s, size_t n, int k, void *st) { return moved(d, s, n); }
E cudaMemcpyPeer(void *d, int a, const void *s, int b, size_t n) { return moved(d, s, n); }
E cudaMemcpyPeerAsync(void *d, int a, const void *s, int b, size_t n, void *st) { return moved(d, s, n); }
E cudaMemcpy2D(char *d, size_t dp, const char *s, size_t sp, size_t w, size_t h, int k) {
  return moved_rows(d, dp, s, sp, w, h);
}
E cudaMemcpy2DAsync(char *d, size_t dp, const char *s, size_t sp, size_t w, size_t h, int k, void *st) {
  return moved_rows(d, dp, s, sp, w, h);
}
E cudaMemcpyFromSymbol(void *p, const void *s, size_t n, size_t o, int k) {
  memset(p, 0, n);
  return 0;
}
E cudaMemcpyFromSymbolAsync(void *p, const void *s, size_t n, size_t o, int k, void *st) {
  memset(p, 0, n);
  return 0;
}
E cudaMemset(void *d, int v, size_t n) {
  memset(d, v, n);
  return 0;
}
E cudaMemsetAsync(void *d, int v, size_t n, void *s) {
  memset(d, v, n);
  return 0;
}
E cudaMemset2DAsync(char *d, size_t dp, int v, size_t w, size_t h, void *s) {
  for (size_t i = 0; i < h; i++) memset(d + i * dp, v, w);
  return 0;
}
E cudaMemGetInfo(size_t *available, size_t *total) {
  *available = 79ull << 30;
  *total = 80ull << 30;
  return 0;
}
E cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *p) {
  memset(a, 0, sizeof *a);
  a->type = 2;
  a->devicePointer = (void *)p;
  return 0;
}
E cudaHostGetDevicePointer(void **d, void *h, unsigned f) {
  *d = h;
  return 0;
}
E cudaHostGetFlags(unsigned *f, void *p) {
  *f = 0;
  return 0;
}
static char symbol[1 << 16];
E cudaGetSymbolAddress(void **p, const void *s) {
  *p = symbol;
  return 0;
}
E cudaGetSymbolSize(size_t *n, const void *s) {
  *n = sizeof symbol;
  return 0;
}
E cudaMemPoolGetAttribute(void *pool, int attribute, void *v) {
  *(unsigned long long *)v = 0;
  return 0;
}

/* Handles: any that are not null. */
static long next_handle = 0x1000;
static E handed(void **p) {
  *p = (void *)(next_handle += 16);
  return 0;
}
E cudaStreamCreate(void **s) { return handed(s); }
E cudaStreamCreateWithFlags(void **s, unsigned f) { return handed(s); }
E cudaStreamCreateWithPriority(void **s, unsigned f, int p) { return handed(s); }
E cudaEventCreate(void **s) { return handed(s); }
E cudaEventCreateWithFlags(void **s, unsigned f) { return handed(s); }
E cudaIpcOpenEventHandle(void **p) { return handed(p); }
E cudaDeviceGetDefaultMemPool(void **p, int d) { return handed(p); }
E cudaDeviceGetMemPool(void **p, int d) { return handed(p); }
E cudaMemPoolCreate(void **p) { return handed(p); }
E cudaLibraryLoadData(void **p) { return handed(p); }
E cudaLibraryGetKernel(void **p) { return handed(p); }
E cudaUserObjectCreate(void **p) { return handed(p); }
E cudaGraphCreate(void **p, unsigned f) { return handed(p); }
E cudaGraphAddNode(void **p) { return handed(p); }
E cudaGraphInstantiate(void **p) { return handed(p); }
E cudaGraphInstantiateWithFlags(void **p) { return handed(p); }
E cudaGraphInstantiateWithParams(void **p) { return handed(p); }
E cudaStreamEndCapture(void *s, void **p) { return handed(p); }

/* Answers of nothing: no capture, no peers, no nodes. */
static E nothing(void *v, size_t size) {
  memset(v, 0, size);
  return 0;
}
E cudaStreamIsCapturing(void *s, int *v) { return nothing(v, sizeof *v); }
E cudaStreamGetCaptureInfo(void *s, int *v) { return nothing(v, sizeof *v); }
E cudaStreamGetCaptureInfo_v2(void *s, int *v) { return nothing(v, sizeof *v); }
E cudaStreamGetCaptureInfo_v3(void *s, int *v) { return nothing(v, sizeof *v); }
E cudaStreamGetCaptureInfo_ptsz(void *s, int *v) { return nothing(v, sizeof *v); }
E cudaStreamGetCaptureInfo_v3_ptsz(void *s, int *v) { return nothing(v, sizeof *v); }
E cudaStreamGetPriority(void *s, int *v) { return nothing(v, sizeof *v); }
E cudaStreamGetFlags(void *s, unsigned *v) { return nothing(v, sizeof *v); }
E cudaStreamGetDevice(void *s, int *v) { return nothing(v, sizeof *v); }
E cudaStreamGetId(void *s, unsigned long long *v) {
  *v = 1;
  return 0;
}
E cudaGetDeviceFlags(unsigned *v) { return nothing(v, sizeof *v); }
E cudaDeviceCanAccessPeer(int *v, int a, int b) { return nothing(v, sizeof *v); }
E cudaDeviceGetP2PAttribute(int *v, int a, int b, int c) { return nothing(v, sizeof *v); }
E cudaDeviceGetCacheConfig(int *v) { return nothing(v, sizeof *v); }
E cudaDeviceGetSharedMemConfig(int *v) { return nothing(v, sizeof *v); }
E cudaGraphGetNodes(void *g, void *n, size_t *v) { return nothing(v, sizeof *v); }
E cudaGraphGetRootNodes(void *g, void *n, size_t *v) { return nothing(v, sizeof *v); }
E cudaGraphGetEdges(void *g, void *a, void *b, size_t *v) { return nothing(v, sizeof *v); }
E cudaGraphNodeGetDependencies(void *n, void *d, size_t *v) { return nothing(v, sizeof *v); }
E cudaGraphNodeGetDependencies_v2(void *n, void *d, void *e, size_t *v) { return nothing(v, sizeof *v); }
E cudaGraphNodeGetDependentNodes(void *n, void *d, size_t *v) { return nothing(v, sizeof *v); }
E cudaGraphNodeGetType(void *n, int *v) { return nothing(v, sizeof *v); }
E cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = -5;
  return 0;
}
E cudaDeviceGetTexture1DLinearMaxWidth(size_t *n) {
  *n = 1;
  return 0;
}
E cudaEventElapsedTime(float *f, void *a, void *b) {
  *f = 1.0f;
  return 0;
}
E cudaEventElapsedTime_v2(float *f, void *a, void *b) {
  *f = 1.0f;
  return 0;
}

/* The driver, asked for by name. */
static int agreed(void) { return 0; }
static E entry_point(const char *name, void **f, int *query) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  void *found = driver ? dlsym(driver, name) : 0;
  *f = found ? found : (void *)agreed;
  if (query) *query = 0;
  return 0;
}
E cudaGetDriverEntryPoint(const char *n, void **f, unsigned long long flags, int *q) { return entry_point(n, f, q); }
E cudaGetDriverEntryPointByVersion(const char *n, void **f, unsigned v, unsigned long long flags, int *q) {
  return entry_point(n, f, q);
}
