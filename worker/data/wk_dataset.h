/* wk_dataset.h - a labelled image set for training and testing, as the four files of MNIST. */
#ifndef WK_DATASET_H
#define WK_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "common/core/gb_status.h"

typedef struct {
    uint32_t count;      /* samples */
    uint32_t rows, cols; /* pixels; one byte each, 0 = background */
    uint8_t *images;     /* owned; [count][rows][cols] */
    uint8_t *labels;     /* owned; [count], each below the number of classes */
} wk_samples_t;

typedef struct {
    wk_samples_t train, test;
} wk_dataset_t;

/* Loads train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and
 * t10k-labels-idx1-ubyte from `dir`, each plain or with .gz. Checks that images and labels agree in
 * number, that no label reaches `classes`, and that both sets have the same image size. Errors name
 * the file and the remedy (GB_ERR_NOT_FOUND, GB_ERR_FORMAT, GB_ERR_NO_MEMORY). */
gb_status_t wk_dataset_load(const char *dir, uint32_t classes, wk_dataset_t *out);

/* Frees both sets; harmless on a zeroed struct. */
void wk_dataset_free(wk_dataset_t *set);

#endif
