#include "common/cuda/gb_identity.h"

const CUuuid gb_identity_uuid = {
    {'G', 'a', 'b', 'l', 'e', '-', 'i', 'd', 'e', 'n', 't', 'i', 't', 'y', 0, 1}};
const CUuuid gb_exchange_uuid = {
    {'G', 'a', 'b', 'l', 'e', '-', 'e', 'x', 'c', 'h', 'a', 'n', 'g', 'e', 0, 1}};
const CUuuid gb_travel_uuid = {
    {'G', 'a', 'b', 'l', 'e', '-', 't', 'r', 'a', 'v', 'e', 'l', 0, 0, 0, 1}};
const CUuuid gb_beside_uuid = {
    {'G', 'a', 'b', 'l', 'e', '-', 'b', 'e', 's', 'i', 'd', 'e', 0, 0, 0, 1}};
