/* Compiled once into each CUDA library of ours, with GB_LIBCUDA_KIND set to what it is. */
#include <string.h>

#include "common/cuda/gb_cuda_default.h"
#include "common/cuda/gb_identity.h"
#include "gb_cuda_api.h"

#pragma weak gb_cuda_leave
static const gb_identity_t identity = {sizeof(gb_identity_t), 2, GB_LIBCUDA_KIND, GABLE_VERSION,
                                       gb_cuda_leave};

__attribute__((weak)) const void *gb_cuda_own_export_table(const CUuuid *id)
{
    (void)id;
    return NULL;
}

CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
    if (!ppExportTable || !pExportTableId)
        return CUDA_ERROR_INVALID_VALUE;
    const void *table = memcmp(pExportTableId, &gb_identity_uuid, sizeof(CUuuid)) == 0
                            ? &identity
                            : gb_cuda_own_export_table(pExportTableId);
    if (!table)
        return CUDA_ERROR_INVALID_VALUE;
    *ppExportTable = table;
    return CUDA_SUCCESS;
}
