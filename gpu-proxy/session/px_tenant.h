/* px_tenant.h - what a session keeps apart from those of other tenants on disk.
 *
 * Compiled kernels are native code: whoever could leave one for somebody else would run in their
 * session. So every tenant (the name in the certificate that the lease was given to) has a cache of
 * kernels of its own, in a folder "tenant-..." of the proxy's. Of more than PX_TENANTS the one whose
 * last session began longest ago is removed, so that strangers cannot fill the disk. */
#ifndef PX_TENANT_H
#define PX_TENANT_H

#include "common/core/gb_status.h"

enum { PX_TENANTS = 16 };

/* Makes the tenant's folder and sets GABLE_CPU_CACHE to it; to be called before the driver compiles a
 * kernel. With "off" there, or where no folder can be made, nothing is cached. */
gb_status_t px_tenant_cache(const char *tenant);

/* Removes what is too much, once. Reads the whole folder, so not while a client waits for its session.
 * Any thread, after px_tenant_cache. */
void px_tenant_bound(void);

#endif
