#include "worker/data/wk_dataset.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/data/wk_idx.h"

#define IMAGES_RANK 3
#define LABELS_RANK 1

/* Path of dir/name, or of dir/name.gz if only that one exists. */
static gb_status_t find_file(const char *dir, const char *name, char *path, size_t size)
{
    if ((size_t)snprintf(path, size, "%s/%s", dir, name) + sizeof(".gz") > size)
        return gb_fail(GB_ERR_INVALID, "%s: the path is too long: use a shorter --data", dir);
    if (access(path, F_OK) == 0)
        return GB_OK;
    strcat(path, ".gz");
    if (access(path, F_OK) == 0)
        return GB_OK;
    return gb_fail(GB_ERR_NOT_FOUND,
                   "%s/%s[.gz]: no such file: name the folder of the MNIST files with --data", dir,
                   name);
}

static gb_status_t load_kind(const char *dir, const char *name, uint32_t rank, wk_idx_t *out,
                             char *path, size_t size)
{
    wk_idx_t idx;
    gb_status_t status = find_file(dir, name, path, size);
    if (status == GB_OK)
        status = wk_idx_load(path, &idx);
    if (status != GB_OK)
        return status;
    if (idx.rank == rank) {
        *out = idx;
        return GB_OK;
    }
    status = gb_fail(
        GB_ERR_FORMAT, "%s: magic 0x%08x instead of 0x%08x, it holds %s where %s belong: %s", path,
        0x800u + idx.rank, 0x800u + rank, idx.rank == LABELS_RANK ? "labels" : "images",
        rank == LABELS_RANK ? "labels" : "images",
        idx.rank == LABELS_RANK || idx.rank == IMAGES_RANK ? "swap the images and labels files back"
                                                           : "put the original MNIST file there");
    wk_idx_free(&idx);
    return status;
}

static gb_status_t check_labels(const wk_idx_t *labels, uint32_t classes, const char *path)
{
    for (size_t i = 0; i < labels->size; i++) {
        if (labels->bytes[i] >= classes)
            return gb_fail(
                GB_ERR_FORMAT,
                "%s: label %u of sample %zu, but the model has %u classes: use other data "
                "or another model",
                path, labels->bytes[i], i, classes);
    }
    return GB_OK;
}

static gb_status_t load_samples(const char *dir, const char *images_name, const char *labels_name,
                                uint32_t classes, wk_samples_t *out)
{
    char images_path[PATH_MAX], labels_path[PATH_MAX];
    wk_idx_t images, labels;
    gb_status_t status =
        load_kind(dir, images_name, IMAGES_RANK, &images, images_path, sizeof(images_path));
    if (status != GB_OK)
        return status;
    status = load_kind(dir, labels_name, LABELS_RANK, &labels, labels_path, sizeof(labels_path));
    if (status != GB_OK)
        goto err_free_images;
    if (images.dims[0] != labels.dims[0]) {
        status = gb_fail(GB_ERR_FORMAT,
                         "%s has %u images but %s has %u labels: use files that "
                         "belong together",
                         images_path, images.dims[0], labels_path, labels.dims[0]);
        goto err_free_labels;
    }
    status = check_labels(&labels, classes, labels_path);
    if (status != GB_OK)
        goto err_free_labels;
    *out = (wk_samples_t){.count = images.dims[0],
                          .rows = images.dims[1],
                          .cols = images.dims[2],
                          .images = images.bytes,
                          .labels = labels.bytes};
    return GB_OK;

err_free_labels:
    wk_idx_free(&labels);
err_free_images:
    wk_idx_free(&images);
    return status;
}

gb_status_t wk_dataset_load(const char *dir, uint32_t classes, wk_dataset_t *out)
{
    wk_dataset_t set = {0};
    gb_status_t status = load_samples(dir, "train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                      classes, &set.train);
    if (status == GB_OK)
        status = load_samples(dir, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", classes,
                              &set.test);
    if (status == GB_OK && (set.train.rows != set.test.rows || set.train.cols != set.test.cols))
        status = gb_fail(GB_ERR_FORMAT,
                         "%s: training images are %ux%u but test images %ux%u: use files that "
                         "belong together",
                         dir, set.train.rows, set.train.cols, set.test.rows, set.test.cols);
    if (status != GB_OK) {
        wk_dataset_free(&set);
        return status;
    }
    *out = set;
    return GB_OK;
}

void wk_dataset_free(wk_dataset_t *set)
{
    free(set->train.images);
    free(set->train.labels);
    free(set->test.images);
    free(set->test.labels);
    memset(set, 0, sizeof(*set));
}
