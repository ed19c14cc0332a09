// Libraries that a program loads by itself: kernels, variables and managed variables by name.
#include "check.h"
#include <cstring>
#include <unistd.h>

static const char text[] = R"(
.version 7.5
.target sm_75
.address_size 64
.visible .global .align 4 .u32 total = 7;
.visible .global .attribute(.managed) .align 4 .u32 both = 5;
.visible .entry twice(.param .u64 out, .param .u32 n)
{
    .reg .b32 r<4>;
    .reg .b64 d<4>;
    ld.param.u64 d1, [out];
    cvta.to.global.u64 d1, d1;
    ld.param.u32 r1, [n];
    add.u32 r1, r1, r1;
    ld.global.u32 r2, [total];
    add.u32 r1, r1, r2;
    st.global.u32 [d1], r1;
    ld.global.u32 r3, [both];
    add.u32 r3, r3, 1;
    st.global.u32 [both], r3;
    ret;
}
.visible .entry nothing()
{
    ret;
}
)";

static int run(cudaKernel_t kernel, int n)
{
    int *out, host = -1;
    OK(cudaMalloc(&out, 4));
    void *args[] = {&out, &n};
    OK(cudaLaunchKernel((void *)kernel, dim3(1), dim3(1), args, 0, 0));
    OK(cudaMemcpy(&host, out, 4, cudaMemcpyDeviceToHost));
    OK(cudaFree(out));
    return host;
}

static void look_at(cudaLibrary_t library)
{
    cudaKernel_t kernel, all[3] = {};
    unsigned count = 0;
    size_t bytes = 0;
    int *total, *both, value = 100;
    const char *name = nullptr;
    void *unified = &count;
    OK(cudaLibraryGetKernelCount(&count, library));
    EXPECT(count == 2);
    OK(cudaLibraryEnumerateKernels(all, 3, library));
    OK(cudaLibraryGetKernel(&kernel, library, "twice"));
    EXPECT((all[0] == kernel) != (all[1] == kernel) && all[2] == nullptr);
    OK(cudaFuncGetName(&name, (void *)kernel));
    EXPECT(std::strcmp(name, "twice") == 0);
    EXPECT(run(kernel, 20) == 47);
    OK(cudaLibraryGetGlobal((void **)&total, &bytes, library, "total"));
    EXPECT(bytes == 4);
    OK(cudaMemcpy(total, &value, 4, cudaMemcpyHostToDevice));
    EXPECT(run(kernel, 20) == 140);
    OK(cudaLibraryGetManaged((void **)&both, &bytes, library, "both"));
    OK(cudaDeviceSynchronize());
    EXPECT(bytes == 4 && *both == 7);
    *both = 50;
    EXPECT(run(kernel, 0) == 100);
    OK(cudaDeviceSynchronize());
    EXPECT(*both == 51);
    EXPECT(cudaLibraryGetKernel(&kernel, library, "missing") == cudaErrorSymbolNotFound);
    EXPECT(cudaLibraryGetKernel(nullptr, library, "twice") == cudaErrorInvalidValue);
    EXPECT(cudaLibraryGetGlobal((void **)&total, &bytes, library, "missing") ==
           cudaErrorSymbolNotFound);
    EXPECT(cudaLibraryGetManaged((void **)&both, &bytes, library, "total") != cudaSuccess);
    // No function is at the same address for the host and for these devices.
    EXPECT(cudaLibraryGetUnifiedFunction(&unified, library, "twice") == cudaErrorSymbolNotFound);
    EXPECT(unified == &count);
    (void)cudaGetLastError();
}

int main()
{
    cudaLibrary_t library, other;
    OK(cudaLibraryLoadData(&library, text, nullptr, nullptr, 0, nullptr, nullptr, 0));
    look_at(library);
    OK(cudaLibraryUnload(library));
    EXPECT(cudaLibraryUnload(library) == cudaErrorInvalidResourceHandle);

    char path[] = "/tmp/gable-library-XXXXXX";
    int fd = mkstemp(path);
    EXPECT(fd >= 0 && write(fd, text, std::strlen(text)) == (ssize_t)std::strlen(text));
    close(fd);
    OK(cudaLibraryLoadFromFile(&library, path, nullptr, nullptr, 0, nullptr, nullptr, 0));
    unlink(path);
    look_at(library);
    OK(cudaLibraryLoadData(&other, text, nullptr, nullptr, 0, nullptr, nullptr, 0));
    look_at(other); // each has variables of its own
    EXPECT(cudaLibraryLoadFromFile(&library, path, nullptr, nullptr, 0, nullptr, nullptr, 0) ==
           cudaErrorFileNotFound);
    EXPECT(cudaLibraryLoadData(&library, ".version 7.5\n.target sm_75\n.entry x( {", nullptr,
                               nullptr, 0, nullptr, nullptr, 0) == cudaErrorInvalidPtx);
    EXPECT(cudaLibraryLoadData(nullptr, text, nullptr, nullptr, 0, nullptr, nullptr, 0) ==
           cudaErrorInvalidValue);
    (void)cudaGetLastError();
    OK(cudaDeviceSynchronize());
    return 0;
}
