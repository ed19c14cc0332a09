/* Names and texts of errors. What driver and runtime share has the driver's text. */
#include "common/cuda/gb_cuda_error.h"
#include "rt_api.h"

static const struct {
    int error;
    const char *name;
    const char *text; /* NULL: the driver's */
} errors[] = {
    {0, "cudaSuccess", "no error"},
    {1, "cudaErrorInvalidValue", NULL},
    {2, "cudaErrorMemoryAllocation", NULL},
    {3, "cudaErrorInitializationError", NULL},
    {4, "cudaErrorCudartUnloading", "driver shutting down"},
    {5, "cudaErrorProfilerDisabled", NULL},
    {6, "cudaErrorProfilerNotInitialized", NULL},
    {7, "cudaErrorProfilerAlreadyStarted", NULL},
    {8, "cudaErrorProfilerAlreadyStopped", NULL},
    {9, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {12, "cudaErrorInvalidPitchValue", "invalid pitch argument"},
    {13, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {16, "cudaErrorInvalidHostPointer", "invalid host pointer"},
    {17, "cudaErrorInvalidDevicePointer", "invalid device pointer"},
    {18, "cudaErrorInvalidTexture", "invalid texture reference"},
    {19, "cudaErrorInvalidTextureBinding", "texture is not bound to a pointer"},
    {20, "cudaErrorInvalidChannelDescriptor", "invalid channel descriptor"},
    {21, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {22, "cudaErrorAddressOfConstant", "address of constant"},
    {23, "cudaErrorTextureFetchFailed", "fetch from texture failed"},
    {24, "cudaErrorTextureNotBound", "cannot fetch from a texture that is not bound"},
    {25, "cudaErrorSynchronizationError", "incorrect use of synchronization"},
    {26, "cudaErrorInvalidFilterSetting", "linear filtering not supported for non-float type"},
    {27, "cudaErrorInvalidNormSetting",
     "read as normalized float not supported for 32-bit non float type"},
    {28, "cudaErrorMixedDeviceExecution",
     "device emulation mode and device execution mode cannot be mixed"},
    {31, "cudaErrorNotYetImplemented", "feature not yet implemented"},
    {32, "cudaErrorMemoryValueTooLarge", "memory size or pointer value too large to fit in 32 bit"},
    {34, "cudaErrorStubLibrary", "CUDA driver is a stub library"},
    {35, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {36, "cudaErrorCallRequiresNewerDriver", "call requires newer driver"},
    {37, "cudaErrorInvalidSurface", "invalid surface reference"},
    {43, "cudaErrorDuplicateVariableName", "duplicate global variable looked up by string name"},
    {44, "cudaErrorDuplicateTextureName", "duplicate texture looked up by string name"},
    {45, "cudaErrorDuplicateSurfaceName", "duplicate surface looked up by string name"},
    {46, "cudaErrorDevicesUnavailable", NULL},
    {49, "cudaErrorIncompatibleDriverContext", "incompatible driver context"},
    {52, "cudaErrorMissingConfiguration", "__global__ function call is not configured"},
    {53, "cudaErrorPriorLaunchFailure", "unspecified launch failure in prior launch"},
    {65, "cudaErrorLaunchMaxDepthExceeded", "launch would exceed maximum depth of nested launches"},
    {66, "cudaErrorLaunchFileScopedTex",
     "launch failed because kernel uses unsupported, file-scoped textures (texture objects are "
     "supported)"},
    {67, "cudaErrorLaunchFileScopedSurf",
     "launch failed because kernel uses unsupported, file-scoped surfaces (surface objects are "
     "supported)"},
    {68, "cudaErrorSyncDepthExceeded",
     "cudaDeviceSynchronize failed because caller's grid depth exceeds "
     "cudaLimitDevRuntimeSyncDepth"},
    {69, "cudaErrorLaunchPendingCountExceeded",
     "launch failed because launch would exceed cudaLimitDevRuntimePendingLaunchCount"},
    {98, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {100, "cudaErrorNoDevice", NULL},
    {101, "cudaErrorInvalidDevice", NULL},
    {102, "cudaErrorDeviceNotLicensed", NULL},
    {103, "cudaErrorSoftwareValidityNotEstablished", "integrity checks failed"},
    {127, "cudaErrorStartupFailure", "startup failure in cuda runtime"},
    {200, "cudaErrorInvalidKernelImage", NULL},
    {201, "cudaErrorDeviceUninitialized", NULL},
    {205, "cudaErrorMapBufferObjectFailed", NULL},
    {206, "cudaErrorUnmapBufferObjectFailed", NULL},
    {207, "cudaErrorArrayIsMapped", NULL},
    {208, "cudaErrorAlreadyMapped", NULL},
    {209, "cudaErrorNoKernelImageForDevice", NULL},
    {210, "cudaErrorAlreadyAcquired", NULL},
    {211, "cudaErrorNotMapped", NULL},
    {212, "cudaErrorNotMappedAsArray", NULL},
    {213, "cudaErrorNotMappedAsPointer", NULL},
    {214, "cudaErrorECCUncorrectable", NULL},
    {215, "cudaErrorUnsupportedLimit", NULL},
    {216, "cudaErrorDeviceAlreadyInUse", NULL},
    {217, "cudaErrorPeerAccessUnsupported", NULL},
    {218, "cudaErrorInvalidPtx", NULL},
    {219, "cudaErrorInvalidGraphicsContext", NULL},
    {220, "cudaErrorNvlinkUncorrectable", NULL},
    {221, "cudaErrorJitCompilerNotFound", NULL},
    {222, "cudaErrorUnsupportedPtxVersion", NULL},
    {223, "cudaErrorJitCompilationDisabled", NULL},
    {224, "cudaErrorUnsupportedExecAffinity", NULL},
    {225, "cudaErrorUnsupportedDevSideSync", NULL},
    {226, "cudaErrorContained", NULL},
    {300, "cudaErrorInvalidSource", NULL},
    {301, "cudaErrorFileNotFound", NULL},
    {302, "cudaErrorSharedObjectSymbolNotFound", NULL},
    {303, "cudaErrorSharedObjectInitFailed", NULL},
    {304, "cudaErrorOperatingSystem", NULL},
    {400, "cudaErrorInvalidResourceHandle", NULL},
    {401, "cudaErrorIllegalState", NULL},
    {402, "cudaErrorLossyQuery", NULL},
    {500, "cudaErrorSymbolNotFound", NULL},
    {600, "cudaErrorNotReady", NULL},
    {700, "cudaErrorIllegalAddress", NULL},
    {701, "cudaErrorLaunchOutOfResources", NULL},
    {702, "cudaErrorLaunchTimeout", NULL},
    {703, "cudaErrorLaunchIncompatibleTexturing", NULL},
    {704, "cudaErrorPeerAccessAlreadyEnabled", NULL},
    {705, "cudaErrorPeerAccessNotEnabled", NULL},
    {708, "cudaErrorSetOnActiveProcess", NULL},
    {709, "cudaErrorContextIsDestroyed", NULL},
    {710, "cudaErrorAssert", NULL},
    {711, "cudaErrorTooManyPeers", NULL},
    {712, "cudaErrorHostMemoryAlreadyRegistered", NULL},
    {713, "cudaErrorHostMemoryNotRegistered", NULL},
    {714, "cudaErrorHardwareStackError", NULL},
    {715, "cudaErrorIllegalInstruction", NULL},
    {716, "cudaErrorMisalignedAddress", NULL},
    {717, "cudaErrorInvalidAddressSpace", NULL},
    {718, "cudaErrorInvalidPc", NULL},
    {719, "cudaErrorLaunchFailure", NULL},
    {720, "cudaErrorCooperativeLaunchTooLarge", NULL},
    {721, "cudaErrorTensorMemoryLeak", NULL},
    {800, "cudaErrorNotPermitted", NULL},
    {801, "cudaErrorNotSupported", NULL},
    {802, "cudaErrorSystemNotReady", NULL},
    {803, "cudaErrorSystemDriverMismatch", NULL},
    {804, "cudaErrorCompatNotSupportedOnDevice", NULL},
    {805, "cudaErrorMpsConnectionFailed", NULL},
    {806, "cudaErrorMpsRpcFailure", NULL},
    {807, "cudaErrorMpsServerNotReady", NULL},
    {808, "cudaErrorMpsMaxClientsReached", NULL},
    {809, "cudaErrorMpsMaxConnectionsReached", NULL},
    {810, "cudaErrorMpsClientTerminated", NULL},
    {811, "cudaErrorCdpNotSupported", NULL},
    {812, "cudaErrorCdpVersionMismatch", NULL},
    {900, "cudaErrorStreamCaptureUnsupported", NULL},
    {901, "cudaErrorStreamCaptureInvalidated", NULL},
    {902, "cudaErrorStreamCaptureMerge", NULL},
    {903, "cudaErrorStreamCaptureUnmatched", NULL},
    {904, "cudaErrorStreamCaptureUnjoined", NULL},
    {905, "cudaErrorStreamCaptureIsolation", NULL},
    {906, "cudaErrorStreamCaptureImplicit", NULL},
    {907, "cudaErrorCapturedEvent", NULL},
    {908, "cudaErrorStreamCaptureWrongThread", NULL},
    {909, "cudaErrorTimeout", NULL},
    {910, "cudaErrorGraphExecUpdateFailure", NULL},
    {911, "cudaErrorExternalDevice", NULL},
    {912, "cudaErrorInvalidClusterSize", NULL},
    {913, "cudaErrorFunctionNotLoaded", NULL},
    {914, "cudaErrorInvalidResourceType", NULL},
    {915, "cudaErrorInvalidResourceConfiguration", NULL},
    {999, "cudaErrorUnknown", NULL},
};

static int find(int error)
{
    int count = (int)(sizeof(errors) / sizeof(errors[0]));
    for (int i = 0; i < count; i++)
        if (errors[i].error == error)
            return i;
    return -1;
}

const char *cudaGetErrorName(cudaError_t error)
{
    int i = find((int)error);
    return i < 0 ? "unrecognized error code" : errors[i].name;
}

const char *cudaGetErrorString(cudaError_t error)
{
    int i = find((int)error);
    const char *text = i < 0 ? NULL : errors[i].text;
    if (i >= 0 && !text)
        text = gb_cuda_error_text((CUresult)error);
    return text ? text : "unrecognized error code";
}
